#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/forward_context.h"

namespace accrue::batch {

/// A sample that was asked for and cannot be used.
struct UnreadableSample {
  std::int64_t sample_id = 0;
  std::string reason;  ///< with the name of its file
};

/// Samples that go through the model together.
struct MicroBatch {
  at::Tensor inputs;   ///< [R, T] int64 token ids, or images [B, C, H, W] fp32
  at::Tensor targets;  ///< [R, T] int64 (-100 where no loss is taken), or classes [B]
  /// What each term of the loss counts, in the shape of `targets`, fp32; undefined where each
  /// counts 1.
  at::Tensor weights;
  std::vector<std::int64_t> sample_ids;  ///< the samples' draw ordinals (epoch * N + position)
  std::int64_t tokens = 0;               ///< inputs that are not padding; an image is one
  /// Where the samples lie when several share a row (packing); empty: R = B, a row each.
  std::vector<SampleSpan> spans;
  /// Samples that were asked for and cannot be read; they have no row and no id above.
  std::vector<UnreadableSample> unreadable;

  /// Whether nothing is left to run: B = 0.
  bool is_empty() const { return inputs.defined() && inputs.size(0) == 0; }
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
