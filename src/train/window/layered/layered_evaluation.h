#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/models/trainable.h"
#include "train/window/layered/activation_store.h"

namespace accrue::train {

struct LayeredEvaluation {
  /// Called before the micro-batches pass through a segment, also if there are none, or if it was
  /// cancelled: other ranks may take part in it. May be empty.
  std::function<void(std::size_t segment)> before_segment;
  /// Called before each pass of a micro-batch through a segment; true ends the evaluation. May be
  /// empty.
  std::function<bool()> cancelled;
};

/// The losses of micro-batches, with the bits of models::evaluate_losses(), without dropout: all
/// pass through one segment before the next begins. A model whose parameters are in a file or on
/// other ranks is so brought in once for all of them. `store` keeps their activations at one cut.
/// Nothing if it was cancelled.
std::optional<std::vector<models::Evaluated>> evaluate_by_segments(
    models::Trainable& model, std::span<const batch::MicroBatch> micro_batches,
    ActivationStore& store, const LayeredEvaluation& options);

}  // namespace accrue::train
