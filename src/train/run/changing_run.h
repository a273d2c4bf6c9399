#pragma once

#include <functional>
#include <optional>
#include <string>

#include "accrue/core/observer.h"
#include "core/stop_signals.h"
#include "train/checkpoint/data_continuity.h"
#include "train/checkpoint/run_copies.h"
#include "train/ranks/run_optimizer.h"
#include "train/run/run_folders.h"

namespace accrue::train {

/// A run whose ranks change; its members outlive the functions that take it.
struct ChangingRun {
  const Ranks& ranks;
  const Workload& work;
  /// Replaced if the state is divided; none in a process that has not joined yet.
  std::optional<RunOptimizer>& optimizer;
  const DataIdentity& data;
  const RunCopies& copies;
  const RunFolders& folders;  ///< as held by the first rank
  std::string& name;          ///< RunTenure::run; a process that joins learns it
  const StopSignalWatch& signals;
  const std::optional<StepReport>&
      unreported_step;                     ///< RunLog::unreported_step(), of any loop so far
  std::function<void(const Event&)> tell;  ///< calls observers, if this rank has any
};

}  // namespace accrue::train
