#include "train/plan/plan_choice.h"

#include "accrue/core/error.h"
#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "memory/out_of_memory.h"
#include "memory/plan_entries.h"
#include "memory/plan_refusal.h"
#include "train/pass/forward_backward.h"
#include "train/plan/batch_norm_values.h"
#include "train/plan/enough_memory.h"
#include "train/plan/memory_advice.h"
#include "train/plan/storage.h"
#include "train/workload/batch_changes.h"
#include "train/workload/layered_model.h"

namespace accrue::train {

bool can_recompute(const Workload& work) {
  return work.model->segments().size() > 1 && !is_layered(work.config, *work.model);
}

namespace {

std::vector<Recompute> modes_of(const Workload& work, bool is_open) {
  if (const std::optional<Recompute> stated = work.config.memory.recompute) {
    check_recompute(*work.model, work.config.model.batchnorm, *stated);
    return {*stated};
  }
  if (!is_open || !can_recompute(work)) return {Recompute::none};
  return {Recompute::none, Recompute::selective, Recompute::full};
}

}  // namespace

std::optional<std::int64_t> tensor_limit(const Config& config) {
  if (const auto held = memory::tensor_budget()) return held;
  return memory::resolve_budget(config.memory.budget);
}

std::int64_t preferred_limit(const memory::Resident& resident) {
  const std::int64_t held = std::max(memory::usage().reserved, resident.total());
  return held + memory::available_bytes() / 2;
}

namespace {

/// The samples for which micro-batches are chosen: the largest of a run's windows. It is the
/// smallest if all micro-batches of a run have one size, and for several ranks, whose shares are
/// whole micro-batches; half of the first window if the noise decides and one micro-batch would
/// show none. A stated size stays.
std::int64_t planned_samples(const Workload& work) {
  const Config& config = work.config;
  const std::int64_t most = work.schedule.samples_per_window;
  const bool has_one_size = !fixed_micro_batch_reason(config).empty();
  if (!batch_changes(config) || (!has_one_size && work.ranks == 1)) return most;
  const BatchRange range = batch_range(config);
  std::int64_t planned = std::max<std::int64_t>(1, most * range.least / range.most);
  if (has_one_size && adapt::measures_noise(config.adapt.batch))
    planned = std::max<std::int64_t>(1, work.schedule.window(0).size() / 2);
  return std::min(most, std::max(planned, config.batch.micro.value_or(1)));
}

}  // namespace

memory::PlanQuestion plan_question(const Workload& work) {
  const Config& config = work.config;
  const std::optional<std::int64_t> budget = tensor_limit(config);
  // Without a budget a stated size is run unchanged.
  const std::vector<Recompute> modes = modes_of(work, budget || !config.batch.micro);
  return {.window_samples = planned_samples(work),
          .ranks = work.ranks,
          .limit_bytes = budget.value_or(0),
          .outside_bytes = budget ? memory::left_outside() : 0,
          .stated_bytes =
              memory::budget_of() == memory::BudgetOf::process ? memory::budget().value_or(0) : 0,
          .is_budget = budget.has_value(),
          .modes = modes,
          .micro_batch = config.batch.micro,
          .least_micro_batch = least_micro_batch(work),
          .open_micro_batch = micro_batch_advice(config, "\"auto\""),
          .enough_bytes = budget && !work.offload ? enough_budget(work).value_or(0) : 0,
          .more_recomputation = modes.back() != Recompute::full && can_recompute(work),
          .may_be_offloaded = may_be_offloaded(work),
          .place_of_state = work.offload ? "" : work.offload_reason,
          .context = is_language_model(config.model.kind) ? config.model.context_or_default() : 0,
          .parameter_count = models::parameter_count(*work.model)};
}

namespace {

void take_what_is_left(memory::PlanQuestion& question) {
  question.limit_bytes = memory::tensor_budget().value_or(question.limit_bytes);
  question.outside_bytes = memory::left_outside();
}

}  // namespace

void remeasure_beyond_budget(const memory::Trial& afresh, memory::PlanQuestion& question,
                             std::vector<memory::Fact>& facts) {
  if (!question.is_budget || !memory::tensor_budget()) return;
  take_what_is_left(question);
  for (memory::Fact& fact : facts) {
    if (!fact.measured.fits || fact.measured.peak_bytes <= question.limit_bytes) continue;
    const memory::Measured again = afresh(fact.point);
    if (again.fits) fact.measured = again;
    take_what_is_left(question);
  }
}

bool is_decided(const memory::PlanQuestion& question) {
  return question.micro_batch && question.modes.size() == 1;
}

std::unique_ptr<PlanTrials> begin_trials(const Workload& work, memory::PlanQuestion& question) {
  try {
    auto trials = std::make_unique<PlanTrials>(work);
    question.resident = trials->resident();
    if (!question.is_budget) question.limit_bytes = preferred_limit(question.resident);
    return trials;
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
  }
  question.resident = memory::state_bytes(question.parameter_count, storage_of(work.config));
  refuse_resident_bytes(question);
}

bool may_be_planned(const Workload& work, const memory::PlanPoint& point) {
  memory::PlanQuestion question = plan_question(work);
  try {
    const std::unique_ptr<PlanTrials> trials = begin_trials(work, question);
    std::vector<memory::Fact> facts{{point, trials->run(point)}};
    question.resident = trials->resident();
    remeasure_beyond_budget(
        [&](const memory::PlanPoint& again) { return trials->measure_again(again); }, question,
        facts);
    const memory::Measured& measured = facts.front().measured;
    return measured.fits && memory::leaves_margin(question, measured.peak_bytes);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::refused) throw;
    return false;
  }
}

void refuse_resident_bytes(const memory::PlanQuestion& question) {
  const memory::Measured failed{.fits = false,
                                .peak_bytes = question.limit_bytes + memory::last_missing_bytes()};
  throw memory::refusal({{{question.least_micro_batch, question.modes.back()}, failed}}, question);
}

}  // namespace accrue::train
