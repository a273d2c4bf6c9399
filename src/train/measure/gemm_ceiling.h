#pragma once

#include <cstdint>
#include <vector>

#include "accrue/models/gpt2.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// One matrix product of a micro-batch: out[m, n] = a[m, k] b[k, n], `count` times.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t count = 1;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(count);
  }
};

/// Large enough to show the machine's peak.
inline constexpr GemmShape peak_shape{.m = 2048, .n = 2048, .k = 2048, .count = 1};

/// Forward, data-gradient and weight-gradient products of all linear layers and the head for
/// `tokens` tokens (a vit's patches); attention's own products are not among them. A model whose
/// work is another (convolutions, a foreign module) has `peak_shape`.
std::vector<GemmShape> gemm_shapes(const ModelConfig& model, std::int64_t tokens);

/// FLOP/s of these products through the library's own GEMM, each run once, with its right operand
/// plain or packed, whichever is faster; weighted by their work.
double measure_gemm_rate(const std::vector<GemmShape>& shapes, models::Compute compute);

/// The best of three measurements of `peak_shape`.
double best_gemm_rate(models::Compute compute);

}  // namespace accrue::train
