#include "train/run/start_events.h"

#include <filesystem>
#include <system_error>

#include "accrue/core/units.h"
#include "accrue/memory/offload.h"
#include "core/words.h"
#include "kernels/gemm/gemm.h"
#include "memory/plan.h"
#include "train/checkpoint/checkpoint_folders.h"
#include "train/plan/make_run_plan.h"
#include "train/plan/setup.h"
#include "train/ranks/rank_remarks.h"
#include "train/run/histogram_taker.h"
#include "train/watch/rare_updates.h"
#include "train/workload/batch_changes.h"
#include "train/workload/held_out_remarks.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

/// Gathers events of one step.
class Events {
 public:
  explicit Events(std::int64_t step) : step_(step) {}
  void add(const std::string& name, const std::string& reason) {
    if (!reason.empty()) list_.push_back({.name = name, .reason = reason, .step = step_});
  }
  void add_all(const std::string& name, const std::vector<std::string>& reasons) {
    for (const std::string& reason : reasons) add(name, reason);
  }
  std::vector<Event> take() && { return std::move(list_); }

 private:
  std::int64_t step_;
  std::vector<Event> list_;
};

std::string resumption_in_words(const Resumed& resumed, const StartFacts& start) {
  const TrainState& state = resumed.state;
  if (resumed.checkpoint.empty())
    return "no whole checkpoint was found: starting again from step 0";
  std::string from = "continuing after step " + std::to_string(state.step) + " from " +
                     resumed.checkpoint.string();
  if (state.middle)
    from += ", in the middle of the next one: " + state.middle->in_words() + " are done";
  if (state.window < windows_of_run(start.work, state.adapt.changes)) return from;
  return from + ": " + done_in_words(state.step, start.work.config.run);
}

std::string plan_in_words(const RunPlan& plan) {
  return "micro-batches of " + memory::describe({plan.micro_batch, plan.recompute}) + ": " +
         plan.micro_reason;
}

std::string remark_on_budget_file(const std::string& file) {
  std::error_code unreadable;
  if (file.empty() || std::filesystem::exists(file, unreadable)) return {};
  return "memory.budget_file " + file + " is not there yet: it counts once it is written";
}

/// A resumed run got this remark when it began, unless its length has changed.
std::string remark_on_updates(const StartFacts& start) {
  const bool is_new = !start.resumed || (start.length && start.length->changes);
  const Config& config = start.work.config;
  if (!is_new || batch_changes(config)) return {};
  return rare_updates(make_learning_rate(config, make_horizon(start.plan)),
                      {.steps = start.plan.total_steps,
                       .accumulation_steps = start.plan.effective.accumulation_steps(),
                       .samples = start.plan.batch_samples,
                       .is_stated = config.run.steps.has_value()});
}

std::string remark_on_bf16(const Config& config) {
  if (config.precision.compute != models::Compute::bf16 || !device_of(config).is_cpu() ||
      kernels::multiplies_bf16())
    return {};
  return "this processor multiplies no bf16 (" + kernels::gemm_backend() +
         "): bf16 saves memory here and costs time, its products are made in fp32";
}

}  // namespace

std::string length_change_in_words(const Config& config, const RunPlan& plan,
                                   const std::optional<LengthDecision>& length, std::int64_t step) {
  if (!length || !length->changes) return length ? length->reason : "";
  if (batch_changes(config)) return length->reason;  // its rates do not depend on steps
  return length->reason + ": " +
         rate_in_words(config, make_horizon(plan), length->windows_before, step);
}

std::vector<Event> start_events(const StartFacts& start) {
  const Config& config = start.work.config;
  const Resumed* const resumed = start.resumed ? &*start.resumed : nullptr;
  const std::int64_t step = resumed ? resumed->state.step : 0;
  Events events(step);
  events.add("length", length_change_in_words(config, start.plan, start.length, step));
  events.add("rare_updates", remark_on_updates(start));
  events.add("threads", remark_on_threads(config));
  events.add("precision", remark_on_bf16(config));
  events.add("budget", remark_on_budget_file(config.memory.budget_file));
  events.add("histograms", histogram_remark(config, start.work.slice));
  events.add_all("data", data_remarks(start.work.data));
  events.add_all("data", held_out_remarks(config, start.work.data));
  events.add_all("dist", rank_remarks(config, start.plan.effective, start.ranks, resumed));
  if (!have_one_size(start.records)) events.add("plan", sizes_in_words(start.records));
  if (!resumed || resumed->checkpoint.empty()) events.add_all("model", start.work.remarks);
  if (start.work.acceleration) events.add("accelerate", start.work.acceleration->reason);
  events.add("offload", start.work.offload_reason);
  if (start.work.offload)
    events.add("offload", "parameters, sums of gradients and optimizer state, " +
                              format_bytes(memory::offload_usage().state) + ", lie in a file in " +
                              config.memory.offload);
  if (start.repeated) events.add_all("repeat", in_words(*start.repeated));
  if (!resumed) {
    events.add("plan", plan_in_words(start.plan));
    events.add("plan", start.plan.cuts_reason);
    events.add("batch", batch_changes_in_words(config));
    return std::move(events).take();
  }
  const std::string what =
      resumed->replica_reason.empty()
          ? "a newer checkpoint is damaged, and is removed when the next one is written: "
          : "a checkpoint is damaged: ";
  for (const std::string& damage : resumed->skipped)
    events.add("checkpoint_skipped", what + damage);
  events.add("replica", resumed->replica_reason);
  events.add("resume", resumption_in_words(*resumed, start));
  events.add("batch", changes_by_hand_in_words(config, resumed->state.adapt.changes));
  if (!resumed->window_begins_again.empty())
    events.add("resume", "the checkpoint was written in the middle of step " +
                             std::to_string(step + 1) +
                             ", which begins again: " + resumed->window_begins_again);
  return std::move(events).take();
}

std::vector<Event> folder_events(const RunFolders& folders, const RunCopies& copies,
                                 const std::optional<Resumed>& resumed) {
  Events of_folder(0);
  of_folder.add_all("run_directory", folders.claim->remarks());
  if (!folders.restored.empty())
    of_folder.add("replica", "what " + copies.own().root().string() + " had lost was copied from " +
                                 copies.replica()->root().string() + ": " +
                                 listed(folders.restored, "and"));
  std::vector<Event> list = std::move(of_folder).take();
  if (!resumed || resumed->checkpoint.empty()) return list;
  Events events(resumed->state.step);
  events.add("data", resumed->data_change);
  if (!resumed->data_move.empty())
    events.add("data", "the same data as before lie elsewhere: " + resumed->data_move);
  events.add("model", resumed->module_change);
  if (!resumed->has_checksums)
    events.add("checkpoint",
               resumed->checkpoint.filename().string() +
                   " was written before checkpoints had checksums: only its lengths were compared");
  // If a damaged checkpoint was skipped, the later ones were named already.
  if (resumed->skipped.empty())
    events.add("checkpoint", copies.is_of_replica(resumed->checkpoint)
                                 ? folders.replica->give_up_after(resumed->state.step)
                                 : give_up_after(copies.own(), resumed->state.step));
  for (Event& event : std::move(events).take()) list.push_back(std::move(event));
  return list;
}

}  // namespace accrue::train
