#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/distributed/group.h"
#include "distributed/compress/compression.h"
#include "distributed/schedule/outer_step.h"

namespace accrue::distributed {

/// The contribution of one inner step of one rank to its round.
struct RoundShare {
  std::int64_t steps = 0;              ///< inner steps of the run so far: the same on every rank
  double weight = 0;                   ///< loss terms of this rank's step, >= 0
  std::vector<double> rank_sums = {};  ///< the same number as the rounds were made for
};

/// The combined shares of the ranks, from when the last part was sent in the round before to when
/// it was sent in this one.
struct RoundTotals {
  double weight = 0;
  std::vector<double> rank_sums;  ///< added up over ranks
};

/// The outcome of an inner step for the outer steps.
struct OuterOutcome {
  bool merged = false;                ///< whether parts were merged; the next three refer to them
  double reduce_seconds = 0;          ///< of their exchanges
  double exposed_seconds = 0;         ///< that this rank spent sending and merging
  std::int64_t wire_bytes = 0;        ///< sent by this rank
  std::optional<RoundTotals> totals;  ///< at the end of a round
};

/// Outer steps (outer_step.h) of the ranks of a group. The mean difference is weighted by how much
/// each rank trained on since it last sent the part: one row of numbers and one sum for each part
/// and round, through a Compressor if requested. A rank without training data takes part with
/// weight 0. A part for which no rank has weight is merged without a step.
///
/// With a delay exchanges run while the ranks train (on a separate thread, one after the
/// other), and each is merged exactly `delay` inner steps after it was sent, whenever it
/// arrived: so the results do not depend on the link. `delay` bounds the staleness: a rank
/// whose exchange is not complete by then waits for it. All ranks' differences have the same
/// age when they are merged, so the weights need no correction by age; each rank keeps all
/// changes that it made meanwhile.
///
/// At the end of a round no exchange is in progress. With several parts, or a delay, ranks'
/// parameters then differ by the changes since they were sent: the start, which all ranks share,
/// replaces them for evaluations and checkpoints, until go_on(). At the end of the run all parts
/// are sent and merged at once, and nothing differs.
///
/// No rank steps unless all did their part; exceptions of a collective pass through, when it is
/// waited for. Nothing else may use the group between an inner step that sent a part and the one
/// that merges it.
class OuterRounds {
 public:
  struct Setting {
    OuterOptions outer;
    Compression compress = Compression::none;
    std::size_t rank_sums = 0;  ///< the number of sums in each share
    std::size_t requests = 0;   ///< the last of them, which are momentary: they are not saved
    /// Called if an exchange is waited for longer than a second, or runs on the same thread since
    /// none can be started; may be null.
    std::function<void(const std::string&)> say_waiting;
  };

  /// Collective, with parameters of the same values. A null `group` is one process. Throws a usage
  /// Error as OuterStep does, or if parameters are to be compressed and not fp32.
  OuterRounds(std::shared_ptr<Group> group, const NamedParameters& parameters, Setting setting);
  /// Waits for exchanges in progress, at most as long as the group does.
  ~OuterRounds();
  OuterRounds(const OuterRounds&) = delete;
  OuterRounds& operator=(const OuterRounds&) = delete;

  bool ends_round(std::int64_t steps) const { return schedule_.ends_round(steps); }
  /// Whether ranks' parameters differ at the end of a round.
  bool leaves_differences() const { return schedule_.leaves_differences(); }
  /// Whether parts are merged after this many inner steps, so that parameters change.
  bool merges_after(std::int64_t steps) const { return schedule_.merged_after(steps).has_value(); }

  /// Takes an inner step: sends and merges what is due, and ends the round at its end, or that
  /// of the run. Collective, after each inner step. Throws a runtime Error on all ranks if
  /// their `steps` differ, or a rank's parameters are not finite; nothing of the part is
  /// changed then.
  OuterOutcome after_step(const RoundShare& share, bool ends_run);

  /// The sums of this rank since the last part was sent, which no other rank knows.
  const std::vector<double>& rank_sums() const { return rank_sums_; }

  /// Whether the start has replaced the parameters.
  bool is_set_aside() const { return own_parameters_.defined(); }
  /// Restores this rank's own parameters, if they were set aside, before it continues.
  void go_on();

  /// OuterStep::state() under "outer.", in its own memory; with compression also
  /// Compressor::state() under "compression.", for several parts each under "compression.PART.",
  /// for which it is collective. Call it between rounds.
  NamedParameters state() const;
  /// The state of this rank alone between rounds: "parameters", flat, and "shares", its weights
  /// since each part was sent and its rank sums since the last one was, without requests. Empty if
  /// all ranks' parameters are the same then.
  NamedParameters own_state() const;
  /// Collective, with the state() and the own_state() of each rank; sums that an earlier version's
  /// own state lacks, at their end, are 0. They throw a usage Error that names the first missing,
  /// extra or misshapen tensor.
  void load_state(const StoredTensors& state);
  void load_own_state(const StoredTensors& own);

 private:
  /// A completed exchange of a part.
  struct ExchangeResult {
    RoundTotals totals;
    at::Tensor mean_difference;  ///< undefined if the total weight is 0
    double seconds = 0;
    std::int64_t wire_bytes = 0;
  };
  struct Message {
    std::size_t part = 0;
    RoundShare share;  ///< since the part was last sent
    at::Tensor sent;   ///< this rank's parameters
    at::Tensor difference;
  };
  struct PendingExchange {
    std::size_t part = 0;
    std::int64_t steps = 0;
    at::Tensor sent;
    std::shared_future<ExchangeResult> exchanged;
  };

  void add_share(const RoundShare& share);
  RoundTotals end_round();
  Message message_of(std::size_t part, std::int64_t steps);
  void send(std::size_t part, std::int64_t steps);
  std::shared_future<ExchangeResult> completed_exchange(const Message& message) const;
  std::shared_future<ExchangeResult> begin(const Message& message);
  void merge_oldest(OuterOutcome& outcome);
  void merge_all(std::int64_t steps, OuterOutcome& outcome);
  const ExchangeResult& wait_for(const PendingExchange& under_way) const;
  ExchangeResult exchange(const Message& message) const;
  RoundTotals totals_of(const Message& message) const;
  void add_up(const at::Tensor& differences, std::size_t part) const;
  bool is_last(std::size_t part) const { return part + 1 == outer_.parts().size(); }
  std::string prefix_of(std::size_t part) const;

  std::shared_ptr<Group> group_;
  Setting setting_;
  OuterSchedule schedule_;
  OuterStep outer_;
  std::vector<std::unique_ptr<Compressor>> compressors_;  ///< one for each part, or none
  std::vector<double> weights_;            ///< of this rank, since each part was sent
  std::vector<double> rank_sums_;          ///< of this rank, since the last part was sent
  std::vector<std::int64_t> sent_at_;      ///< inner steps of the run when each part was sent last
  RoundTotals totals_;                     ///< of the current round
  at::Tensor own_parameters_;              ///< while the start replaces them
  bool exchanges_in_place_ = false;        ///< and that was reported
  std::deque<PendingExchange> under_way_;  ///< in order
};

}  // namespace accrue::distributed
