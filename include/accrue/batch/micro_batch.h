#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace accrue::batch {

/// Samples that go through the model together.
struct MicroBatch {
  at::Tensor inputs;                     ///< [B, T] int64 token ids
  at::Tensor targets;                    ///< [B, T] int64; -100 where no loss is taken
  std::vector<std::int64_t> sample_ids;  ///< B draw ordinals (epoch * N + position)
  std::int64_t tokens = 0;               ///< inputs that are not padding
};

}  // namespace accrue::batch
