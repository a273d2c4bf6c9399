#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

/// The weight gradient of convolutions of other code, in plain C++, like onednn_gemm.h.
namespace accrue::kernels::onednn {

/// The sizes of a convolution in fp32 with one to three spatial dimensions. They are logical sizes:
/// x and grad [B, channels, pixels...], weight [O, C / groups, k...]. None of them is 0.
struct WeightGradient {
  std::vector<std::int64_t> x, weight, grad;
  std::vector<std::int64_t> stride, padding, dilation;
  std::int64_t groups = 1;
  bool channels_last = false;  ///< of x and grad: channels lie next to each other
  auto operator<=>(const WeightGradient&) const = default;
};

/// Returns memory of `bytes` bytes, aligned to 64, that outlives the call.
using Room = std::function<void*(std::size_t bytes)>;

// Both throw a runtime Error if oneDNN fails. Thread-safe.

/// Whether oneDNN has a fast implementation.
bool has_weight_gradient(const WeightGradient& sizes);
/// Writes the gradient to `into`, dense and in the weight's layout, or adds it. Requires
/// has_weight_gradient(sizes).
void weight_gradient(const WeightGradient& sizes, const float* x, const float* grad, float* into,
                     bool add, const Room& room);

}  // namespace accrue::kernels::onednn
