#pragma once

#include <array>
#include <cstdint>

#include "accrue/core/forward_context.h"
#include "accrue/kernels/linear.h"
#include "accrue/kernels/recompute.h"

namespace accrue::models {

/// The norms of the rows of weight + scale * b · a, computed again if one of the three changed.
class RowNorms {
 public:
  /// [N], of the factors' dtype, without autograd.
  const at::Tensor& of(const at::Tensor& weight, const kernels::LowRank& factors);

 private:
  struct Seen {
    const void* data = nullptr;
    std::int64_t version = -1;
    bool operator==(const Seen&) const = default;
  };
  std::array<Seen, 3> seen_;
  at::Tensor norms_;
};

/// The trained replacement of a projection's weight (AdapterOptions).
struct Adapter {
  kernels::LowRank factors;
  /// [N]: DoRA's norms of the rows of weight + scale * b · a; undefined: the norms are not changed.
  at::Tensor magnitude = {};
  double dropout = 0;     ///< of the factors' input, at `site`
  std::int64_t site = 0;  ///< kernels/dropout.h
  RowNorms norms = {};

  /// x with elements dropped; undefined if none are.
  at::Tensor dropped(const at::Tensor& x, const ForwardContext& context) const;
  /// Recomputes dropped(x) for backward, from `remake_x` instead of x if that is given.
  kernels::Remake remake_dropped(const at::Tensor& x, const kernels::Remake& remake_x,
                                 const ForwardContext& context) const;
  /// y [..., N], a product with weight + scale * b · a, with each of its columns times magnitude
  /// over norm; the gradient ignores that the norm changes with the factors, as in the paper
  /// (section 4.3). Differentiable.
  at::Tensor rescaled(const at::Tensor& y, const at::Tensor& weight, const at::Tensor& bias);
};

}  // namespace accrue::models
