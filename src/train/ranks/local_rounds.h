#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "accrue/core/step_report.h"
#include "distributed/schedule/outer_rounds.h"
#include "train/window/micro_batch_runner.h"

namespace accrue::train {

/// The rounds of a run whose ranks step alone (dist.local_steps): what a rank trained on since the
/// last outer step, and when the next one is due. A step is counted for each window, whether or not
/// this rank's part of it had any weight: so all ranks count alike without a word.
class LocalRounds {
 public:
  /// A round ends also with the run, after `total_steps`.
  LocalRounds(std::unique_ptr<distributed::OuterRounds> rounds, std::int64_t total_steps);

  /// What this rank's part of one window came to, and whether a step followed.
  void add(const WindowRun& window, bool stepped);
  bool ends_after(std::int64_t steps) const {
    return steps == total_steps_ || rounds_->ends_round(steps);
  }

  struct End {
    distributed::RoundTotals totals;
    std::int64_t tokens_of_others = 0;  ///< in this round
    bool stop_requested = false;        ///< on any rank

    void tell(StepReport& report) const;
  };
  /// The outer step, of all ranks together (distributed::OuterRounds::end). Throws a runtime Error
  /// also where no rank found a finite loss.
  End end(std::int64_t steps, bool stop_requested);
  /// The step after which the last round that ended had begun.
  std::int64_t last_began() const { return last_began_; }

  /// distributed::OuterRounds's, between rounds.
  NamedParameters state() const { return rounds_->state(); }
  /// After `steps` of the run.
  void load_state(const StoredTensors& state, std::int64_t steps);

 private:
  std::unique_ptr<distributed::OuterRounds> rounds_;
  std::int64_t total_steps_;
  double weight_ = 0;  ///< of this round, as the next two
  std::int64_t tokens_ = 0, quarantined_ = 0;
  std::int64_t began_ = 0, last_began_ = 0;
};

}  // namespace accrue::train
