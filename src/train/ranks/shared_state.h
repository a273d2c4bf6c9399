#pragma once

#include <optional>

#include "accrue/models/model.h"
#include "accrue/optim/optimizer.h"
#include "train/checkpoint/train_state.h"
#include "train/ranks/ranks.h"

namespace accrue::train {

/// Where all ranks are.
struct SharedState {
  TrainState state;
  bool was_sent = false;  ///< parameters, to this rank or another
};

/// Brings all ranks to where the farthest of them is, whose state all take: ranks that lost another
/// within a collective differ in what it told them. Those that have done fewer windows, and those
/// that have nothing yet (`mine` empty), get the parameters and the optimizer's state, which they
/// pass on from one to the next; they need room for them twice meanwhile.
///
/// `optimizer` is null if its state is divided among the ranks: then it stays as it is.
///
/// All ranks call it. If it throws, what this rank had is unchanged. Throws a runtime Error
/// if no rank has anything, and where what comes is not of a run like this rank's.
SharedState share_state(const Ranks& ranks, std::optional<TrainState> mine, models::Model& model,
                        optim::Optimizer* optimizer);

}  // namespace accrue::train
