#pragma once

#include <functional>

#include "accrue/models/trainable.h"

namespace accrue::train {

/// What became of a micro-batch's forward and backward pass.
struct PassResult {
  double loss_sum = 0;
  double weight = 0;
  bool finite = true;  ///< false: the loss was not finite, and backward was not run
};

/// Runs the chain forward, cut between its segments, takes the losses, and runs it backward segment
/// by segment, last first; gradients land in the parameters' open slots. A non-finite loss is found
/// before backward.
PassResult forward_backward(models::Trainable& model, const batch::MicroBatch& micro,
                            const ForwardContext& context);

}  // namespace accrue::train
