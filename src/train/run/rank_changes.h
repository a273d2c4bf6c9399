#pragma once

#include <functional>
#include <optional>
#include <string>

#include "accrue/core/observer.h"
#include "accrue/optim/optimizer.h"
#include "accrue/train/run_directory.h"
#include "core/stop_signals.h"
#include "train/checkpoint/train_state.h"
#include "train/ranks/ranks.h"
#include "train/window/started_window.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// A run whose ranks change; all of it outlives the calls below.
struct ChangingRun {
  const Ranks& ranks;
  const Workload& work;
  optim::Optimizer& optimizer;
  const std::string& data_fingerprint;
  const RunDirectory& directory;
  const StopSignalWatch& signals;
  std::function<void(const Event&)> tell;  ///< tells observers, where this rank has any
};

/// Where a run goes on after its ranks changed.
struct ChangedRanks {
  TrainState state;
  /// This rank's part of the window ahead, where some of it is done: its own micro-batches with
  /// their sums, and its share of those that nobody has.
  std::optional<StartedWindow> part;
  Event event;  ///< what changed and why; for the first rank to tell
};

/// Makes the group of a run anew, of the ranks that are left and those that ask to join, and brings
/// all of them to one state; `state` is this rank's, `done` what it did of the window behind that,
/// and `why` says for people what became of the
/// group before. Ranks that are lost meanwhile are left out in turn. With fewer
/// than dist.min_ranks it waits for others, with a checkpoint of what was done.
///
/// Throws a runtime Error as distributed::Group::renew() does.
ChangedRanks go_on_with_other_ranks(const ChangingRun& run, TrainState state,
                                    std::optional<StartedWindow> done, std::string why);

/// Joins a run that was under way when this process came, and returns where that is. Throws a usage
/// Error where config, data or model are not those of the run, which goes on without this process.
ChangedRanks join_run(const ChangingRun& run);

}  // namespace accrue::train
