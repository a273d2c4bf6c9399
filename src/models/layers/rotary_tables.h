#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "accrue/models/llama.h"

namespace accrue::models {

/// The tables for kernels::rotate, [positions, head_width / 2] each.
struct RotaryTables {
  at::Tensor cosines, sines;

  /// Moves them to `device`, once.
  void move_to(c10::Device device) {
    if (cosines.device() == device) return;
    *this = RotaryTables{cosines.to(device), sines.to(device)};
  }

  /// The tables of `count` positions from `first` on.
  RotaryTables part(std::int64_t first, std::int64_t count) const {
    return {cosines.narrow(0, first, count), sines.narrow(0, first, count)};
  }
};

/// The tables in `dtype`, with the values of transformers in fp32 (modeling_rope_utils.py):
/// frequencies, angles and their cosines are computed in fp32, by the same operations.
RotaryTables rotary_tables(const RotaryOptions& options, std::int64_t positions,
                           std::int64_t head_width, at::ScalarType dtype);

}  // namespace accrue::models
