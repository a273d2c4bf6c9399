#pragma once

#include <optional>

#include "accrue/models/model.h"
#include "accrue/optim/optimizer.h"
#include "train/checkpoint/train_state.h"
#include "train/ranks/ranks.h"

namespace accrue::train {

/// The common state of all ranks.
struct SharedState {
  TrainState state;
  bool was_sent = false;  ///< whether parameters were sent to any rank
};

/// Brings all ranks to the state of the one that is furthest: when a rank is lost within a
/// collective, the others may differ in whether it completed. Ranks that have done fewer windows,
/// and those that have nothing yet (`mine` empty), get the parameters and the optimizer's state,
/// which they pass on from one to the next; meanwhile they need room for them twice.
///
/// `optimizer` is null if its state is divided among the ranks: then it stays as it is.
///
/// Collective. If it throws, this rank's own state is unchanged. Throws a runtime Error if no rank
/// has a state, and if the received state is not of a run like this rank's.
SharedState share_state(const Ranks& ranks, std::optional<TrainState> mine, models::Model& model,
                        optim::Optimizer* optimizer);

}  // namespace accrue::train
