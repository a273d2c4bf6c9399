#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <type_traits>
#include <vector>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/distributed/group.h"
#include "distributed/group/liveness/heartbeat.h"
#include "distributed/group/liveness/lifeline.h"
#include "distributed/group/liveness/rank_process.h"
#include "distributed/group/membership/membership.h"
#include "distributed/group/membership/rank_notes.h"
#include "distributed/group/rendezvous/earlier_run.h"
#include "distributed/group/rendezvous/run_connections.h"

namespace accrue::distributed {

/// The messages of ranks besides their collectives: that they live, where they are, why the group
/// ended, and who is in the next one. They use a key-value store (open_store), in which each rank
/// signs its texts with the run's token. No call waits for the host
/// longer than documented, whatever happened to it.
class RankStore {
 public:
  /// Connects, and waits until all ranks did. Throws a runtime Error naming those that did not come
  /// within `timeout`, and a usage Error naming those that have another token, or if other machines
  /// could write into the store and there is no token. If `may_change` is set, a process that finds
  /// the ranks of an earlier start alive has no rank yet: form_next_group() lets it in.
  /// `tell_waiting` is called if the others do not come for a while (GroupOptions).
  RankStore(const Launch& launch, std::chrono::milliseconds timeout, bool may_change,
            WaitingNote::Tell tell_waiting);

  int rank() const { return place_.rank; }
  int world() const { return place_.world(); }
  const std::vector<Member>& members() const { return place_.members; }
  /// How many groups there were before this one.
  std::int64_t generation() const { return membership_ ? membership_->list().generation : 0; }
  bool came_late() const { return came_late_; }
  /// Whether the store's host is gone, without which ranks cannot agree on anything.
  bool has_lost_host() const { return has_lost_host_; }

  /// Connections for engines only, which may wait on them.
  c10::intrusive_ptr<c10d::Store> engine_connection() const { return connections_.engine(part()); }
  c10::intrusive_ptr<c10d::Store> device_connection() const {
    return connections_.device_engine(part());
  }
  Heartbeat& heartbeat() { return *heartbeat_; }
  /// The news of the heartbeat; none if there is no heartbeat.
  std::optional<std::string> lost_one() const {
    return heartbeat_ ? heartbeat_->lost_one() : std::nullopt;
  }
  bool has_applicants() const { return heartbeat_ && heartbeat_->has_applicants(); }

  /// Informs the others which collective this rank enters; does nothing if they could not receive
  /// it.
  void enter(std::int64_t collective, std::string_view what);

  /// All ranks' texts, by rank. Throws RanksGone naming those whose text did not come in time, and
  /// a runtime Error if a text is foreign or the store's host is gone.
  std::vector<std::string> gather(std::string_view topic, const std::string& mine);

  /// Ends the group for `reason`. The first rank to state a reason decides; returns that one. Takes
  /// at most end_time().
  std::string end_for(const std::string& reason) noexcept;
  /// Ends the group for an error in collective `number`, and finds out which rank is missing.
  std::string end_in(std::int64_t number, const std::string& error) noexcept;
  /// Call it before this process ends with a group that ended: rank 0, if it hosts the store, waits
  /// a moment, so that the others can read why.
  void linger_before_exit() noexcept;

  /// Call it last, before this process ends with the run. Kills the ranks of this machine that are
  /// stopped and so would never end: those without which the others continued, those of a group
  /// that is over for all, and, of a group that finished its work, those that stay stopped for
  /// longer than the timeout.
  void end_stopped_ranks(bool is_over) const;

  /// Call it once the group works: the next one leaves out those that joined one that never did.
  void settle();
  using KeepWaiting = Group::KeepWaiting;
  /// Waits until the remaining ranks and those that ask to join have agreed on the next group, of
  /// `least` or more, and meets them. Throws RanksGone if one of them is lost meanwhile, and a
  /// runtime Error if the store's host is gone, this rank was left out, or `keep_waiting` gave
  /// up.
  void form_next_group(std::int64_t least, const KeepWaiting& keep_waiting);

 private:
  /// How long a rank may take to end once the store answers: it listens to the others' heartbeats,
  /// and rank 0 waits until they have read the reason.
  static constexpr std::chrono::milliseconds kEnd{2800};
  /// How much later than the timeout a rank may end.
  std::chrono::milliseconds end_time() const;

  std::string part() const;
  std::string in_part(const std::string& name) const;
  void begin_lifeline() noexcept;
  std::string announcement(const std::string& run) const;
  void answer_roll_call(bool may_change);
  void report_missing_ranks(const std::shared_ptr<RollCall>& roll, Deadline until);
  std::string give_up(const std::shared_ptr<RollCall>& roll);
  void form_first_group(bool may_change);
  void start_as_applicant(const EarlierRun& run);
  void apply();
  template <class Ask>
  std::invoke_result_t<Ask&> ask(std::string_view what, Ask ask);
  void start_heartbeat(const std::vector<std::string>& here);
  void start_applicant_heartbeat();
  void agree(std::int64_t least, const KeepWaiting& keep_waiting);
  Membership::Status poll(std::int64_t least);
  Error not_all_here(std::string_view what, const std::string& failure, const Stopwatch& watch,
                     const std::string& reason = "") const;
  [[noreturn]] void refuse(const RankNotes::Texts& texts, const std::string& topic,
                           std::string_view what);
  std::vector<std::string> exchange(const std::string& topic, const std::string& mine,
                                    std::string_view what, std::chrono::milliseconds timeout);
  template <class Decide>
  std::string decide(Decide decide) noexcept;
  const std::string& host_is_gone();
  bool has_lost_contact() const;

  WaitingNote note_;
  RunConnections connections_;
  std::chrono::milliseconds timeout_;
  std::string stated_by_;  ///< the variables that made this process a rank
  GroupPlace place_;
  bool came_late_ = false;
  bool has_lost_host_ = false;
  std::int64_t gathers_ = 0;                ///< how many there were; each has its own keys
  std::optional<std::string> decided_;      ///< why the group ended
  std::shared_ptr<Membership> membership_;  ///< null if the group cannot change
  std::optional<RankNotes> notes_;
  std::optional<Heartbeat> heartbeat_;
  std::map<Member, RankProcess> met_;  ///< every process ever in a group with this one, and itself
  std::optional<Lifeline> lifeline_;   ///< none if this machine provides no sockets
};

}  // namespace accrue::distributed
