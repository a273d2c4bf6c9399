#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "distributed/group/membership/membership.h"
#include "distributed/group/rendezvous/run_connections.h"

namespace accrue::distributed {

/// The run that a process finds in its store when it starts, and may join if that run is alive.
/// Blocks and throws as SealedTexts do.
class EarlierRun {
 public:
  /// The run began with `world` ranks, by this process's launcher.
  EarlierRun(RunConnections connections, int world)
      : connections_(std::move(connections)), world_(world) {}

  /// Whether one of its ranks gave a sign of life since the first call; call it repeatedly. `start`
  /// is the last complete start, if there was one.
  bool lives(const std::optional<std::string>& start);

  /// Whether its texts could not be opened with this process's token, or without one.
  bool is_sealed_otherwise() const { return is_sealed_otherwise_; }

  /// Valid once it lives.
  const RunConnections& connections() const { return connections_; }
  const std::shared_ptr<Membership>& membership() const { return membership_; }

 private:
  bool finds(const std::string& start);

  RunConnections connections_;
  int world_;
  std::string start_;
  bool is_sealed_otherwise_ = false;
  std::shared_ptr<Membership> membership_;  ///< null: the ranks of the start have not met
};

}  // namespace accrue::distributed
