#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "distributed/group/membership.h"
#include "distributed/group/run_connections.h"

namespace accrue::distributed {

/// The run that a process finds in its store when it starts, and that it may join where that one
/// lives. Blocks and throws as SealedTexts do.
class EarlierRun {
 public:
  /// The run had `world` ranks at first, as this process's launcher says.
  EarlierRun(RunConnections connections, int world)
      : connections_(std::move(connections)), world_(world) {}

  /// Whether one of its ranks gave a sign of life since this was first asked; to be asked again and
  /// again. `start` is the last one that was complete, if any was.
  bool lives(const std::optional<std::string>& start);

  /// Whether what it wrote could not be opened with this process's token, or its lack of one.
  bool is_sealed_otherwise() const { return is_sealed_otherwise_; }

  /// Once it lives.
  const RunConnections& connections() const { return connections_; }
  const std::shared_ptr<Membership>& membership() const { return membership_; }

 private:
  bool finds(const std::string& start);

  RunConnections connections_;
  int world_;
  std::string start_;
  bool is_sealed_otherwise_ = false;
  std::shared_ptr<Membership> membership_;  ///< null: the start's ranks have not met
};

}  // namespace accrue::distributed
