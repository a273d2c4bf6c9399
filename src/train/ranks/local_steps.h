#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "distributed/schedule/outer_rounds.h"
#include "train/ranks/parallelism.h"
#include "train/window/window_leases.h"

namespace accrue::train {

/// Ranks that step alone (dist.local_steps), and from time to time take an outer step together. A
/// step is counted for each window, whether or not this rank's share of it had any weight: so all
/// ranks count alike without a word. One process may do so, too.
class LocalSteps final : public Parallelism {
 public:
  /// A round ends also with the run.
  explicit LocalSteps(const ParallelismContext& context);

  batch::Range share(batch::Range window) override;
  void close(accum::Window& window, WindowRun& run) override;
  bool steps_alone() const override { return true; }
  bool ends_round(std::int64_t windows) const override;
  bool is_within_round(std::int64_t windows) const override { return !ends_round(windows); }
  /// Takes the outer step where the round ends. Throws a runtime Error as
  /// distributed::OuterRounds::end() does, and where no rank found a finite loss.
  void after_step(TrainState& state, WindowRun& run) override;
  std::int64_t step_before(std::int64_t) const override { return last_began_; }
  void report(const WindowRun& run, StepReport& report) const override;
  std::vector<RankRecord> records() const override { return leases_.records(); }
  bool writes_together() const override { return ranks_.are_many(); }
  /// One rank cannot: what it did since the last round is not the run's.
  bool can_write_alone() const override { return false; }
  NamedParameters state(TrainState& state) override;
  void load_state(const StoredTensors& of_ranks, const TrainState& state) override;

 private:
  void end_round(TrainState& state, WindowRun& run);
  void begin_round(std::int64_t steps);

  const Ranks& ranks_;
  optim::Optimizer& optimizer_;
  RunLog& log_;
  const RunControl& control_;
  WindowLeases leases_;
  std::unique_ptr<distributed::OuterRounds> rounds_;
  std::int64_t total_steps_;
  double weight_ = 0;  ///< this round's, like the next two
  std::int64_t tokens_ = 0, quarantined_ = 0;
  std::int64_t began_ = 0, last_began_ = 0;        ///< steps before this round, and before the last
  std::optional<distributed::RoundTotals> ended_;  ///< the round that ended with the last window
};

}  // namespace accrue::train
