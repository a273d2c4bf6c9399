#include "train/run/run_planner.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <utility>

#include "accrue/core/error.h"
#include "train/plan/batch_norm_values.h"
#include "train/plan/make_run_plan.h"
#include "train/plan/memory_advice.h"
#include "train/plan/setup.h"
#include "train/run/settle_acceleration.h"
#include "train/workload/batch_changes.h"
#include "train/workload/run_length.h"

namespace accrue::train {

const RunPlan& RunPlanner::decide() {
  if (plan_) return *plan_;
  RECORD_USER_SCOPE("plan");
  settle_acceleration(work_, ranks_, repeated_);
  const bool alike = !fixed_micro_batch_reason(work_.config).empty();
  if (repeated_ && repeated_->repetition.keeps_plan) {
    records_ = records_for(ranks_.world(), repeated_->record->ranks, alike);
    return plan_by_records("as in " + repeated_->record->folder + ": " +
                           repeated_->record->plan_reason);
  }
  MicroDecision mine = choose_micro_batch(work_, show_);
  const auto trials = mine.trials;
  const auto decisions = ranks_.agree(std::move(mine), alike);
  for (const MicroDecision& decision : decisions)
    records_.push_back(
        {.micro_batch = std::min(decision.samples, work_.schedule.samples_per_window),
         .recompute = decision.recompute});
  expect_values_for_batch_norm(work_,
                               records_[static_cast<std::size_t>(ranks_.rank())].micro_batch);
  plan_ = make_plan(work_, decisions[static_cast<std::size_t>(ranks_.rank())], records_);
  plan_->trials = trials;
  return *plan_;
}

/// The plan of ranks that follow the records.
const RunPlan& RunPlanner::plan_by_records(const std::string& reason) {
  const RankRecord& mine = records_[static_cast<std::size_t>(ranks_.rank())];
  plan_ =
      make_plan(work_, {.samples = mine.micro_batch, .recompute = mine.recompute, .reason = reason},
                records_);
  return *plan_;
}

void RunPlanner::take_up(TrainState& state, const std::string& reason) {
  work_.ranks = ranks_that_share(given_, ranks_.world());
  work_.slice = ranks_.slice(given_);
  memory::RecoveryState& sizes = state.micro_batches;
  if (state.ranks.empty())
    state.ranks = {{.micro_batch = sizes.planned, .recompute = state.recompute}};
  records_ =
      records_for(ranks_.world(), state.ranks, !fixed_micro_batch_reason(work_.config).empty());
  if (given_.memory.recompute)
    for (RankRecord& record : records_) record.recompute = *given_.memory.recompute;
  const RankRecord& mine = records_[static_cast<std::size_t>(ranks_.rank())];
  if (sizes.planned != mine.micro_batch)
    sizes = {.planned = mine.micro_batch, .micro_batch = mine.micro_batch};
  state.recompute = mine.recompute;
  resume_acceleration(work_, state.accelerate);
  state.ranks = records_;
  plan_by_records(reason);
  const std::int64_t total = windows_of_run(work_, state.adapt.changes);
  if (state.window <= total) return;
  throw usage_error("resume with " + length_in_words(given_.run),
                    "a run of at least the " + std::to_string(state.window) +
                        " steps that the checkpoint has done",
                    std::to_string(total), "a longer run, or --resume with an earlier checkpoint");
}

}  // namespace accrue::train
