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

/// What one inner step of one rank adds to its round.
struct RoundShare {
  std::int64_t steps = 0;              ///< inner steps of the run so far: the same on every rank
  double weight = 0;                   ///< loss terms of this rank's step, >= 0
  std::vector<double> rank_sums = {};  ///< as many as the rounds were made for
};

/// What the ranks' shares came to together, from where the last part was sent in the round before
/// to where it was sent in this one.
struct RoundTotals {
  double weight = 0;
  std::vector<double> rank_sums;  ///< added up over ranks
};

/// What followed an inner step.
struct OuterOutcome {
  bool merged = false;                ///< whether parts were merged; the next three are theirs
  double reduce_seconds = 0;          ///< that their exchanges took
  double exposed_seconds = 0;         ///< that this rank spent on sending and merging
  std::int64_t wire_bytes = 0;        ///< sent by this rank
  std::optional<RoundTotals> totals;  ///< where the round ends
};

/// Outer steps (outer_step.h) of the ranks of a group, with the mean difference weighted by what
/// each trained on since it last sent the part: one row of numbers and one sum for each part and
/// round, through a Compressor where asked for. A rank that had nothing to train on takes part with
/// weight 0. What came without any weight of any rank is merged without a step.
///
/// With a delay exchanges are under way while the ranks go on (on a thread of their own, one after
/// the other), and each is merged exactly `delay` inner steps after it was sent, whenever it
/// arrived: what is computed does not depend on the link. So `delay` bounds the staleness: a rank
/// whose exchange is still under way then waits for it. All ranks' differences have the same age
/// when they are merged, so the weights need no correction by age; what each rank moved meanwhile
/// is kept whole.
///
/// Where a round ends nothing is under way. With several parts, or a delay, ranks' parameters
/// differ there by what each moved since it sent them: the start, which all ranks have alike, is
/// put in their place, to be evaluated and kept, until go_on(). If the run ends all parts are
/// sent and merged at once, and nothing differs.
///
/// No rank steps unless all did their part; what a collective throws goes through, where it is
/// waited for. Nobody else may use the group between an inner step that sent a part and the one
/// that merges it.
class OuterRounds {
 public:
  struct Setting {
    OuterOptions outer;
    Compression compress = Compression::none;
    std::size_t rank_sums = 0;  ///< how many each share has
    std::size_t requests = 0;   ///< the last of them, which are of the moment: none is kept
    /// Told if an exchange is waited for longer than a second, or is made in place since no
    /// thread can be started; may be null.
    std::function<void(const std::string&)> say_waiting;
  };

  /// All ranks make it alike, with parameters of the same values. A null `group` is one process.
  /// Throws a usage Error as OuterStep does, or where parameters are to be compressed and not fp32.
  OuterRounds(std::shared_ptr<Group> group, const NamedParameters& parameters, Setting setting);
  /// Waits for what is under way, at most as long as the group does.
  ~OuterRounds();
  OuterRounds(const OuterRounds&) = delete;
  OuterRounds& operator=(const OuterRounds&) = delete;

  bool ends_round(std::int64_t steps) const { return schedule_.ends_round(steps); }
  /// Whether ranks' parameters differ where a round ends.
  bool leaves_differences() const { return schedule_.leaves_differences(); }
  /// Whether parts are merged after this many inner steps, so that parameters change.
  bool merges_after(std::int64_t steps) const { return schedule_.merged_after(steps).has_value(); }

  /// Takes in an inner step: sends and merges what is due, and ends the round where it ends, or the
  /// run does. All ranks call it after each inner step. Throws a runtime Error on all of them where
  /// their `steps` differ, or a rank's parameters are not finite; nothing of the part is changed
  /// then.
  OuterOutcome after_step(const RoundShare& share, bool ends_run);

  /// This rank's since the last part was sent, which nobody else knows of.
  const std::vector<double>& rank_sums() const { return rank_sums_; }

  /// Whether the start is in the parameters' place.
  bool is_set_aside() const { return own_parameters_.defined(); }
  /// Puts this rank's own parameters back, where they were set aside, before it goes on.
  void go_on();

  /// OuterStep::state() under "outer.", in its own memory; with compression also
  /// Compressor::state() under "compression.", of several parts each under "compression.PART.", for
  /// which all ranks call it. To be called between rounds.
  NamedParameters state() const;
  /// What this rank alone has between rounds: "parameters", flat, and "shares", its weights since
  /// each part was sent and its rank sums since the last one was, without requests. Empty if all
  /// ranks' parameters are the same then.
  NamedParameters own_state() const;
  /// All ranks call them, with the state() and the own_state() of their rank; sums that an earlier
  /// version's own state lacks, at their end, are 0. They throw a usage Error that names the first
  /// missing, extra or misshapen tensor.
  void load_state(const StoredTensors& state);
  void load_own_state(const StoredTensors& own);

 private:
  /// A part's exchange, done.
  struct Exchanged {
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
  struct UnderWay {
    std::size_t part = 0;
    std::int64_t steps = 0;
    at::Tensor sent;
    std::shared_future<Exchanged> exchanged;
  };

  void take_in(const RoundShare& share);
  RoundTotals end_round();
  Message message_of(std::size_t part, std::int64_t steps);
  void send(std::size_t part, std::int64_t steps);
  std::shared_future<Exchanged> done_now(const Message& message) const;
  std::shared_future<Exchanged> begin(const Message& message);
  void merge_oldest(OuterOutcome& outcome);
  void merge_all(std::int64_t steps, OuterOutcome& outcome);
  const Exchanged& wait_for(const UnderWay& under_way) const;
  Exchanged exchange(const Message& message) const;
  RoundTotals totals_of(const Message& message) const;
  void add_up(const at::Tensor& differences, std::size_t part) const;
  bool is_last(std::size_t part) const { return part + 1 == outer_.parts().size(); }
  std::string prefix_of(std::size_t part) const;

  std::shared_ptr<Group> group_;
  Setting setting_;
  OuterSchedule schedule_;
  OuterStep outer_;
  std::vector<std::unique_ptr<Compressor>> compressors_;  ///< one for each part, or none
  std::vector<double> weights_;        ///< of this rank, since each part was sent
  std::vector<double> rank_sums_;      ///< of this rank, since the last part was sent
  std::vector<std::int64_t> sent_at_;  ///< inner steps of the run when each part was sent last
  RoundTotals totals_;                 ///< of the round under way
  at::Tensor own_parameters_;          ///< while the start is in their place
  bool exchanges_in_place_ = false;    ///< and that was told
  std::deque<UnderWay> under_way_;     ///< in order
};

}  // namespace accrue::distributed
