#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accrue/core/forward_context.h"

namespace accrue::batch {

/// Samples that go through the model together.
struct MicroBatch {
  at::Tensor inputs;   ///< [R, T] int64 token ids, or images [B, C, H, W] fp32
  at::Tensor targets;  ///< [R, T] int64 (-100 where no loss is taken), or classes [B]
  /// As `targets`, fp32: what each term of the loss counts; undefined where each counts 1.
  at::Tensor weights;
  std::vector<std::int64_t> sample_ids;  ///< of its samples: draw ordinals (epoch * N + position)
  std::int64_t tokens = 0;               ///< inputs that are not padding; of images: how many
  /// Where the samples lie when several share a row (packing); empty: R = B, a row each.
  std::vector<SampleSpan> spans;
};

/// What a training pass over `micro` may depend on besides it.
inline ForwardContext training_context(const MicroBatch& micro, std::uint64_t seed,
                                       std::int64_t window) {
  return {.training = true,
          .seed = seed,
          .window = window,
          .sample_ids = micro.sample_ids,
          .spans = micro.spans};
}

/// What an evaluation of `micro` may depend on besides it: nothing is random in it.
inline ForwardContext evaluation_context(const MicroBatch& micro) {
  return {.training = false, .sample_ids = micro.sample_ids, .spans = micro.spans};
}

}  // namespace accrue::batch
