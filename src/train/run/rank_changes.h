#pragma once

#include <optional>
#include <string>

#include "accrue/core/observer.h"
#include "train/checkpoint/train_state.h"
#include "train/run/changing_run.h"
#include "train/window/started_window.h"

namespace accrue::train {

/// Where a run goes on after its ranks changed.
struct ChangedRanks {
  TrainState state;
  /// This rank's part of the window ahead, if some of it is done: its own micro-batches with
  /// their sums, and its share of those that nobody has.
  std::optional<StartedWindow> part;
  /// The step that the run has come to, if a rank took it that does not tell: whoever does may
  /// not have.
  std::optional<StepReport> last_step;
  Event event;  ///< what changed and why; for the first rank to tell
};

/// This rank's part of the window ahead, of which it has done `mine`; none if nobody has done
/// any of it. All ranks call it.
std::optional<StartedWindow> part_of_window(const ChangingRun& run, const TrainState& state,
                                            std::optional<StartedWindow> mine);

/// Makes the group of a run anew, of the ranks that are left and those that ask to join, and brings
/// all of them to one state (bring_to_one_state): with a divided optimizer they may go back to the
/// last checkpoint. `state` is this rank's, `done` what it did of the window behind that, and `why`
/// says for people what became of the group before. Ranks that are lost meanwhile are left out in
/// turn. With fewer than dist.min_ranks it waits for others, with a checkpoint of what was done.
///
/// Throws a runtime Error as distributed::Group::renew() does.
ChangedRanks go_on_with_other_ranks(const ChangingRun& run, TrainState state,
                                    const std::optional<StartedWindow>& done, std::string why);

/// Joins a run that was under way when this process came, and returns where that is. Throws a usage
/// Error if config, data or model are not those of the run, which goes on without this process.
ChangedRanks join_run(const ChangingRun& run);

}  // namespace accrue::train
