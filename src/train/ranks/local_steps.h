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
/// single process may do so as well.
///
/// A window without weight on any rank is no step. Within a round a rank knows only its own share,
/// so it counts the windows in which that had weight. At the end of the round the last exchange
/// reports the other ranks' windows, and all have the same count. With a delay it was sent before
/// the last windows of the round, which all ranks count as steps until the next round reports them.
/// A count that was too high is compensated later, and never decreases.
class LocalSteps final : public Parallelism {
 public:
  /// A round also ends when the run does.
  explicit LocalSteps(const ParallelismContext& context);

  batch::Range share(batch::Range window) override;
  void close(accum::Window& window, WindowRun& run) override;
  bool steps_locally() const override { return true; }
  bool takes_outer_step_after(std::int64_t windows) const override;
  bool is_within_round(std::int64_t windows) const override;
  bool has_set_aside() const override { return rounds_->is_set_aside(); }
  void go_on() override { rounds_->go_on(); }
  /// Sends and merges what is due. Throws a runtime Error as distributed::OuterRounds::after_step()
  /// does, and if no rank found a finite loss.
  void after_step(TrainState& state, WindowRun& run) override;
  std::int64_t step_before(std::int64_t) const override { return last_began_; }
  void report(const WindowRun& run, StepReport& report) const override;
  std::vector<RankRecord> records() const override { return leases_.records(); }
  bool writes_together() const override { return ranks_.are_many(); }
  /// With parts or a delay ranks do not wait for each other at the end of a round: they follow the
  /// first rank's decision one round later.
  std::optional<bool> agreed_to_write(bool due) override;
  /// One rank cannot: what it did since the last round is not part of the run.
  bool can_write_alone() const override { return false; }
  NamedParameters state(TrainState& state) override;
  void load_state(const StoredTensors& of_ranks, const TrainState& state) override;

 private:
  std::vector<double> rank_sums(const TrainState& state, const WindowRun& run);
  void count_own_steps(TrainState& state, bool has_weight);
  void count_steps(const distributed::RoundTotals& totals, TrainState& state) const;
  void note_unreported_steps();
  void end_round(const distributed::RoundTotals& totals, TrainState& state, WindowRun& run);
  void begin_round(const TrainState& state);
  void append_own_states(NamedParameters& of_ranks) const;

  const Ranks& ranks_;
  optim::Optimizer& optimizer_;
  RunLog& log_;
  const RunControl& control_;
  WindowLeases leases_;
  /// Slots for the windows that one round may report; none in one process, which knows all.
  std::size_t window_places_;
  std::unique_ptr<distributed::OuterRounds> rounds_;
  std::int64_t total_windows_;
  std::int64_t began_ = 0, last_began_ = 0;  ///< steps before this round, and before the last
  /// Windows before this round that no exchange has reported yet, and how many of them had weight
  /// in this rank's share, including those of this round.
  std::int64_t unreported_ = 0, own_ = 0;
  std::int64_t tokens_ = 0;  ///< of all ranks, as far as the ended rounds report them
  bool asks_to_write_ = false,
       writes_ = false;                ///< what is sent next, and what the last round decided
  distributed::OuterOutcome outcome_;  ///< of the last window's step
};

}  // namespace accrue::train
