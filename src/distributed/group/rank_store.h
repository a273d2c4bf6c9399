#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "accrue/distributed/launch.h"
#include "distributed/group/heartbeat.h"
#include "distributed/group/rank_notes.h"

namespace accrue::distributed {

/// What ranks tell each other beside their collectives: that they live, where they are, and why the
/// group ended. A key-value store that rank 0 or the launcher's agent hosts, in which each rank
/// signs what it writes with the run's token. No call waits longer for its host than it says,
/// whatever became of that.
class RankStore {
 public:
  /// Connects, and waits until all ranks did. Throws a runtime Error naming those that did not come
  /// within `timeout`, and a usage Error naming those that have another token, or where other
  /// machines could write into the store and there is no token.
  RankStore(const Launch& launch, std::chrono::milliseconds timeout);

  /// A connection for the engine alone, on which it may wait.
  c10::intrusive_ptr<c10d::Store> take_connection() { return std::move(for_engine_); }
  /// Another for a device's engine.
  c10::intrusive_ptr<c10d::Store> take_device_connection() { return std::move(for_device_); }
  Heartbeat& heart() { return *heart_; }

  /// Tells the others which collective this rank enters; does nothing where they could not hear it.
  void enter(std::int64_t collective, std::string_view what);

  /// All ranks' texts, by rank. Throws a runtime Error naming those whose text did not come in
  /// time, or is not theirs, or the store's host where that is gone.
  std::vector<std::string> gather(std::string_view topic, const std::string& mine);

  /// Ends the group for `reason`. The first rank to say so decides; returns what it said. Rank 0
  /// waits a moment, so that the others can read it. Takes at most kEnd.
  std::string end_for(const std::string& reason) noexcept;
  /// Ends the group for an error in collective `number`, and finds out who is missing.
  std::string end_in(std::int64_t number, const std::string& error) noexcept;

  /// How much later than the timeout a rank may end: it listens to the others' heartbeats, and
  /// rank 0 waits until they know.
  static constexpr std::chrono::milliseconds kEnd{4000};

 private:
  struct Connections;
  Connections connect(const Launch& launch) const;
  RankNotes notes_by(SealedTexts texts) const;
  [[noreturn]] void refuse(const RankNotes::Texts& texts, const std::string& topic,
                           std::string_view what);
  std::vector<std::string> exchange(const std::string& topic, const std::string& mine,
                                    std::string_view what);
  template <class Decide>
  std::string decide(Decide decide) noexcept;
  std::string host_is_gone() const;
  bool is_deaf() const;

  c10::intrusive_ptr<c10d::Store> host_;  ///< while it lives, what this rank hosts does
  int rank_, world_;
  bool hosts_store_, agent_hosts_store_;
  std::string place_;         ///< where the store is, for messages
  std::int64_t gathers_ = 0;  ///< how many there were; each has keys of its own
  std::chrono::milliseconds timeout_;
  std::optional<std::string> decided_;  ///< why the group ended
  std::optional<RankNotes> notes_;
  c10::intrusive_ptr<c10d::Store> for_engine_, for_device_;
  std::optional<Heartbeat> heart_;
};

}  // namespace accrue::distributed
