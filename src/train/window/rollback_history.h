#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "accrue/core/ledger.h"
#include "memory/retries.h"

namespace accrue::train {

/// The record of windows that were torn: a part of a micro-batch was folded into the optimizer's
/// state, and the rest failed. The run goes back to a checkpoint; the next attempt quarantines the
/// micro-batch whose gradient was not finite without trying it, or splits the one that did not
/// fit.
class RollbackHistory {
 public:
  /// It counts by a copy of the run's `retries`, which start again with each window.
  explicit RollbackHistory(memory::Retries retries) : retries_(std::move(retries)) {}

  /// First samples of the window's micro-batches by which earlier attempts were torn: these are
  /// quarantined without being tried.
  std::set<std::int64_t> to_quarantine(std::int64_t window) const;

  /// Assumes that the last quarantined micro-batch tore the window. Throws a runtime Error if an
  /// earlier attempt failed in the same way, so that going back would not help.
  void torn_by_gradient(const LedgerView& torn, const std::string& reason);
  /// Throws a refused Error if nothing is left to try. `samples` are those of a micro-batch.
  void torn_by_memory(std::int64_t window, std::int64_t samples, const std::exception& error);
  /// Call it for each window that was closed; returns memory::Retries::take_retry_report() if it
  /// was short of memory.
  std::optional<std::string> closed(std::int64_t window);

 private:
  memory::Retries retries_;
  std::map<std::int64_t, std::set<std::int64_t>> to_quarantine_;  ///< first samples, by window
  std::set<std::int64_t> torn_;
  std::optional<std::int64_t> short_of_memory_;  ///< the window that ran out of memory
};

}  // namespace accrue::train
