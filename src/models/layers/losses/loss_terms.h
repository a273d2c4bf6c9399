#pragma once

#include "accrue/batch/micro_batch.h"
#include "accrue/core/forward_context.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/models/loss_options.h"

namespace accrue::models {

/// `options` for a micro-batch's targets, each with its weight.
inline kernels::CrossEntropyOptions loss_terms(const LossOptions& options,
                                               const batch::MicroBatch& micro,
                                               const ForwardContext& context) {
  if (!context.training) return {.row_weights = micro.weights};
  return {.row_weights = micro.weights,
          .label_smoothing = options.label_smoothing,
          .z_loss = options.z_loss};
}

}  // namespace accrue::models
