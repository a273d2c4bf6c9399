#pragma once

#include <optional>
#include <string>

#include "train/checkpoint/train_state.h"
#include "train/run/changing_run.h"

namespace accrue::train {

/// The common state of all ranks of a group that was rebuilt.
struct RecoveredState {
  TrainState state;
  std::string remark;  ///< a clause about its origin, with "; " at its end; empty: from a rank
};

/// Brings all ranks to the state of the one that is furthest (share_state). A divided optimizer's
/// state is divided again: a lost rank's slice comes from its replica if that has the same step;
/// otherwise all ranks go back to the last checkpoint, which the first of them reads. The ranks
/// keep their own slices until all have the new ones. With a divided model no rank has parameters
/// of a step, so that all go back.
///
/// `mine` is this rank's state, none if it has none or its parameters belong to no step; it is set
/// to the state of the present parameters. Collective. Throws a runtime Error if a slice of the
/// state is lost and there is no checkpoint to go back to.
RecoveredState recover_common_state(const ChangingRun& run, std::optional<TrainState>& mine);

}  // namespace accrue::train
