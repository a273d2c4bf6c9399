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
/// `model` or `optimizer` is null if it is divided among the ranks: then it stays as it is.
///
/// Collective. If it throws, this rank's own state is unchanged. Throws a runtime Error if no rank
/// has a state, and if the received state is not of a run like this rank's.
SharedState share_state(const Ranks& ranks, std::optional<TrainState> mine, models::Model* model,
                        optim::Optimizer* optimizer);

/// Gives all ranks the first rank's tensors of a model (`of_first`, of model.file_tensors()), one
/// at a time: each rank copies what it keeps (memory::kept_part()). Collective. Throws a runtime
/// Error if a tensor is missing or cannot be read; the model may then be partly overwritten.
void share_model(const Ranks& ranks, const StoredTensors& of_first, models::Model& model);

}  // namespace accrue::train
