#include "train/plan/make_run_plan.h"

#include <algorithm>
#include <iterator>

#include "accrue/core/units.h"
#include "batch/changing_windows.h"
#include "batch/variable_windows.h"
#include "core/words.h"
#include "train/plan/activation_placement.h"
#include "train/workload/batch_changes.h"
#include "train/workload/class_remarks.h"

namespace accrue::train {
namespace {

/// The most samples that the config states for a window; for a batch that is decided during the
/// run, its first size.
std::int64_t samples_of_plan(const Workload& work) {
  return work.config.adapt.is_on() ? work.schedule.window(0).size()
                                   : work.schedule.samples_per_window;
}

double tokens_per_step(const Workload& work, std::int64_t steps) {
  if (work.schedule.changing == nullptr) return static_cast<double>(tokens_of_window(work));
  return static_cast<double>(work.schedule.changing->place(steps).tokens) /
         static_cast<double>(steps);
}

/// How a stated batch is reduced that no epoch can fill; empty if it can be filled.
std::string batch_beyond_data(const Workload& work) {
  const batch::WindowSchedule& schedule = work.schedule;
  if (schedule.changing || schedule.last == batch::LastWindow::drop) return {};
  const bool in_tokens = work.config.batch.tokens.has_value();
  const std::int64_t stated =
      in_tokens ? *work.config.batch.tokens : work.config.batch.samples.value_or(0);
  const std::int64_t there = !in_tokens ? schedule.samples_per_epoch
                             : schedule.variable
                                 ? schedule.variable->tokens_in_epoch(0)
                                 : schedule.samples_per_epoch * schedule.tokens_per_sample;
  if (stated <= there) return {};
  const char* const unit = in_tokens ? " tokens" : " samples";
  return std::string("batch.") + (in_tokens ? "tokens" : "samples") + " (" + digit_groups(stated) +
         ") is more than the training data have (" + digit_groups(there) + unit +
         "): each step is an epoch, and takes these";
}

std::string recomputation_in_words(const RunPlan& plan) {
  if (plan.recompute == Recompute::none) return {};
  return "; " + std::string(to_string(plan.recompute)) + " recomputation";
}

}  // namespace

std::int64_t tokens_of_window(const Workload& work) {
  const batch::WindowSchedule& schedule = work.schedule;
  if (work.data.train->image_shape()) return 0;
  if (schedule.changing && !schedule.tokens_per_sample)
    return std::max(schedule.tokens(0), work.config.batch.tokens.value_or(0));
  if (!schedule.variable) return samples_of_plan(work) * schedule.tokens_per_sample;
  if (work.config.batch.tokens)
    return std::min(*work.config.batch.tokens, schedule.variable->tokens_in_epoch(0));
  return schedule.variable->tokens_in_epoch(0) / schedule.windows_in_epoch(0);
}

EffectiveBatch effective_batch(const Workload& work,
                               const std::vector<std::int64_t>& micro_batches) {
  EffectiveBatch batch = divide_batch(samples_of_plan(work), micro_batches);
  batch.tokens = tokens_of_window(work);
  const bool uneven = !work.data.train->uniform_tokens() && batch.tokens > 0;
  batch.samples_vary = uneven && work.config.batch.tokens.has_value();
  batch.tokens_vary = uneven && !batch.samples_vary && batch.tokens > 0;
  return batch;
}

std::vector<std::string> data_remarks(const Datasets& data) {
  std::vector<std::string> remarks;
  for (const auto& source : {data.train, data.val})
    if (source)
      for (const std::string& remark : source->remarks())
        if (std::ranges::find(remarks, remark) == remarks.end()) remarks.push_back(remark);
  std::ranges::move(class_remarks(data), std::back_inserter(remarks));
  return remarks;
}

std::vector<std::string> remarks_of(const Workload& work) {
  std::vector<std::string> remarks = data_remarks(work.data);
  remarks.insert(remarks.end(), work.remarks.begin(), work.remarks.end());
  if (work.acceleration) remarks.push_back(work.acceleration->reason);
  if (!work.offload_reason.empty()) remarks.push_back(work.offload_reason);
  if (const std::string beyond = batch_beyond_data(work); !beyond.empty())
    remarks.push_back(beyond);
  if (const std::string changes = batch_changes_in_words(work.config); !changes.empty())
    remarks.push_back("the batch changes: " + changes + "; planned for the largest");
  return remarks;
}

RunPlan make_plan(const Workload& work, const MicroDecision& decision,
                  const std::vector<RankRecord>& ranks) {
  const Config& config = work.config;
  const batch::WindowSchedule& schedule = work.schedule;
  RunPlan plan;
  plan.parameters = models::parameter_count(*work.model);
  plan.train_samples = work.data.train->size();
  plan.val_samples = work.data.val ? work.data.val->size() : 0;
  plan.batch_samples = samples_of_plan(work);
  plan.batch_tokens = tokens_of_window(work);
  plan.micro_batch = std::min(decision.samples, schedule.samples_per_window);
  plan.micro_batches = (plan.batch_samples + plan.micro_batch - 1) / plan.micro_batch;
  std::vector<std::int64_t> micro_batches{plan.micro_batch};
  if (work.ranks > 1) {
    micro_batches.clear();
    for (const RankRecord& rank : ranks) micro_batches.push_back(rank.micro_batch);
  }
  plan.effective = effective_batch(work, micro_batches);
  plan.uneven = schedule.variable != nullptr;
  plan.steps_per_epoch = schedule.windows_per_epoch();
  plan.total_steps = total_windows(config, schedule);
  plan.tokens_per_step = tokens_per_step(work, plan.total_steps);
  plan.recompute = decision.recompute;
  plan.remarks = remarks_of(work);
  if (work.acceleration) plan.accelerate = work.acceleration->on;
  plan.micro_reason = decision.reason;
  plan.trials = decision.trials;
  if (is_layered(config, *work.model)) {
    const ActivationPlacement cuts = choose_activation_placement(work, schedule.samples_per_window);
    plan.cuts_in_file = cuts.in_file;
    plan.cuts_reason = cuts.reason;
  }
  return plan;
}

std::string summarise(const Config& config, const RunPlan& plan) {
  return std::string(to_string(config.model.kind)) + ", " +
         format_count(static_cast<double>(plan.parameters)) + " parameters, " +
         std::string(to_string(config.precision.compute)) + "; effective batch of " +
         in_words(plan.effective) + recomputation_in_words(plan) + "; " +
         counted(plan.total_steps, "step") + " (" + std::to_string(plan.steps_per_epoch) +
         " an epoch)";
}

Horizon make_horizon(const RunPlan& plan) {
  return {.total_steps = plan.total_steps,
          .tokens_per_step = plan.tokens_per_step,
          .steps_per_epoch = static_cast<double>(plan.steps_per_epoch)};
}

}  // namespace accrue::train
