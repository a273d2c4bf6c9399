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
  bool was_sent = false;  ///< to this rank or another
};

/// Brings all ranks to where the farthest of them is: those behind it, and those that have nothing
/// yet (`mine` empty), get the parameters, the optimizer's state and state from it,
/// one tensor at a time; they need room for them twice meanwhile. A rank that lost another within a
/// collective may have taken a step that others could not. Ranks that are there send nothing.
///
/// All ranks call it. Where it throws, what this rank had is unchanged. Throws a runtime Error
/// where no rank has anything.
SharedState share_state(const Ranks& ranks, std::optional<TrainState> mine, models::Model& model,
                        optim::Optimizer& optimizer);

}  // namespace accrue::train
