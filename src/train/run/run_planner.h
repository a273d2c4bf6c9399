#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "accrue/train/run_plan.h"
#include "train/checkpoint/rank_record.h"
#include "train/checkpoint/repetition.h"
#include "train/checkpoint/train_state.h"
#include "train/ranks/ranks.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Decides what each rank of a run runs: by trials, by the run that it repeats, or by the records
/// of what the ranks ran before.
class RunPlanner {
 public:
  /// All of it is kept by reference. `given` is what the run directory keeps; a plan settles in
  /// `work` what it decides of that, and shows its trials to `show`.
  RunPlanner(const Config& given, const Ranks& ranks, Workload& work,
             const std::optional<OriginalRun>& repeated, const ShowProgress& show)
      : given_(given), ranks_(ranks), work_(work), repeated_(repeated), show_(show) {}

  /// The plan, which is decided once. Collective.
  const RunPlan& decide();
  /// Adopts the plan in `state`, which may be of another rank or another number of ranks, as this
  /// rank's; `reason` states its origin for people. Throws a usage Error if the run is shorter now
  /// than what it has done.
  void take_up(TrainState& state, const std::string& reason = "as the checkpoint says");

  /// Set once it is decided or adopted.
  const std::optional<RunPlan>& plan() const { return plan_; }
  /// By rank, from the plan or a checkpoint.
  const std::vector<RankRecord>& records() const { return records_; }

 private:
  const RunPlan& plan_by_records(const std::string& reason);

  const Config& given_;
  const Ranks& ranks_;
  Workload& work_;
  const std::optional<OriginalRun>& repeated_;
  const ShowProgress& show_;
  std::optional<RunPlan> plan_;
  std::vector<RankRecord> records_;
};

}  // namespace accrue::train
