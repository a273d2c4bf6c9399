#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "accrue/core/ledger.h"
#include "train/window/memory_retries.h"

namespace accrue::train {

/// What a run learns from windows that were torn: a part of a micro-batch was folded into the
/// optimizer's state, and the rest failed. The run goes back to a checkpoint; the next attempt
/// leaves out the micro-batch whose gradient was not finite, or splits the one that did not fit.
class RollbackHistory {
 public:
  explicit RollbackHistory(MemoryRetries retries) : retries_(std::move(retries)) {}

  /// To be told of each micro-batch that is quarantined.
  void left_out(std::int64_t window, const MicroRef& micro);
  /// Whether an earlier attempt was torn by it.
  bool known_bad(std::int64_t window, const MicroRef& micro) const;

  /// Throws a runtime Error where an earlier attempt failed in the same way, so that going back
  /// would not help.
  void torn_by_gradient(std::int64_t window, const std::string& reason);
  /// Throws a refused Error where nothing is left to try. `samples` are those of a micro-batch.
  void torn_by_memory(std::int64_t window, std::int64_t samples, const std::exception& error);
  /// To be told of each window that was closed.
  void closed(std::int64_t window);

 private:
  using Place = std::pair<std::int64_t, std::int64_t>;  ///< window and first sample

  MemoryRetries retries_;
  std::optional<Place> left_out_;  ///< last
  std::set<Place> known_bad_;
  std::set<std::int64_t> torn_;
  std::optional<std::int64_t> short_of_memory_;  ///< the window that was
};

}  // namespace accrue::train
