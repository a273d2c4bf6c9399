#pragma once

#include <optional>
#include <string>

#include "train/checkpoint/train_state.h"
#include "train/run/changing_run.h"

namespace accrue::train {

/// Where all ranks of a group that was made anew are.
struct OneState {
  TrainState state;
  std::string remark;  ///< a clause with "; " at its end: where it comes from; empty: from a rank
};

/// Brings all ranks to where the farthest of them is (share_state). A divided optimizer's state is
/// divided anew: what a lost rank had comes from its replica where that is of the same step; else
/// all ranks go back to the last checkpoint, which the first of them reads. The ranks' own parts
/// stay as they were until all have the new ones.
///
/// `mine` is this rank's state, none if it has none or its parameters are of no step; it becomes
/// that of the parameters as they are. All ranks call it. Throws a runtime Error if a part of
/// the state is lost and there is no checkpoint to go back to.
OneState bring_to_one_state(const ChangingRun& run, std::optional<TrainState>& mine);

}  // namespace accrue::train
