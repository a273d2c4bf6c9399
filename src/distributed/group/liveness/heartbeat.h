#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/group/membership/membership.h"
#include "distributed/group/membership/rank_notes.h"

namespace accrue::distributed {

/// A rank's sign of life in the store, and the news that it reads there. It uses the store on a
/// separate thread, which is abandoned if the store's host froze; another thread ends waits that
/// cannot succeed.
class Heartbeat {
 public:
  /// `notes` have their own connection, on which nothing else waits. With each beat the
  /// `membership` is asked whether a process wants to join; null: it is not asked. A store that
  /// does not answer for `patience` is gone. Throws a runtime Error if the system cannot start a
  /// thread: only that can show that this rank lives while it computes.
  Heartbeat(RankNotes notes, std::chrono::milliseconds patience,
            std::shared_ptr<Membership> membership = nullptr);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Sends `number` to all ranks with their next beat; a smaller number than the last is ignored.
  void announce(std::int64_t number);
  /// The largest number that a rank announced, as far as received here; 0: none.
  std::int64_t announced() const;
  /// A rank of the group that ended, as of the last beat; none if none is known.
  std::optional<std::string> lost_one() const;
  /// Whether a process asks to join, as of the last beat.
  bool has_applicants() const;

  /// The time since the store last answered.
  std::chrono::milliseconds silence() const;

  /// While it exists: calls `interrupt` once, on another thread, if `until` has passed, a rank
  /// reported why the group ended, or the store is gone.
  class Guard {
   public:
    Guard(Heartbeat& heartbeat, Deadline until, std::function<void()> interrupt);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    friend class Heartbeat;
    Heartbeat& heartbeat_;
    Deadline until_;
    std::function<void()> interrupt_;
  };

 private:
  struct Shared;
  static void talk(const RankNotes& notes, Membership* membership, Shared& shared);
  static std::int64_t exchange_announced(const RankNotes& notes, Shared& shared);
  bool is_over() const;
  void watch(const std::stop_token& stop);

  std::chrono::milliseconds patience_;
  std::shared_ptr<Shared> shared_;
  std::thread talker_;
  std::mutex guards_mutex_;
  std::condition_variable_any stopped_;
  std::vector<Guard*> guards_;
  std::jthread watcher_;
};

}  // namespace accrue::distributed
