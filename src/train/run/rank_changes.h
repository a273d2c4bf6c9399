#pragma once

#include <optional>
#include <string>

#include "accrue/core/observer.h"
#include "train/checkpoint/train_state.h"
#include "train/run/changing_run.h"
#include "train/window/started_window.h"

namespace accrue::train {

/// Where a run continues after its ranks changed.
struct ChangedRanks {
  TrainState state;
  /// This rank's part of the next window, if some of the window is done: its own micro-batches with
  /// their sums, and its share of those that no rank has.
  std::optional<StartedWindow> part;
  /// The last step of the run, if the rank that took it does not report steps: the rank that does
  /// may not have taken it.
  std::optional<StepReport> last_step;
  Event event;  ///< what changed and why, for the first rank to report
};

/// This rank's part of the next window, of which it has done `mine`; none if no rank has done any
/// of it. Collective.
std::optional<StartedWindow> part_of_window(const ChangingRun& run, const TrainState& state,
                                            std::optional<StartedWindow> mine);

/// Rebuilds the group of a run from the remaining ranks and those that ask to join, and brings all
/// to one state (recover_common_state): with a divided optimizer they may go back to the last
/// checkpoint. `state` is this rank's, `done` what it did of the next window, and `why` explains
/// what happened to the former group. Ranks that are lost meanwhile are left out as well. With
/// fewer than dist.min_ranks it saves a checkpoint and waits for others.
///
/// Throws a runtime Error as distributed::Group::renew() does.
ChangedRanks go_on_with_other_ranks(const ChangingRun& run, TrainState state,
                                    const std::optional<StartedWindow>& done, std::string why);

/// Joins a run that was already under way, and returns its position. Throws a usage Error if
/// config, data or model are not those of the run, which continues without this process.
ChangedRanks join_run(const ChangingRun& run);

}  // namespace accrue::train
