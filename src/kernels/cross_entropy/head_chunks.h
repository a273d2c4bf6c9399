#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "accrue/kernels/cross_entropy.h"

namespace accrue::kernels {

/// The head of a language model and its loss, as rows.
struct HeadInput {
  at::Tensor hidden, weight, compute, targets;  ///< hidden [R, C], targets [R] in host memory
  at::Tensor bias = {};                         ///< [V], or undefined
  CrossEntropyOptions loss = {};
  double gradient_scale = 1;  ///< rounded to the sum's precision
  std::int64_t chunk_rows = 0;
  bool overwrite_hidden = false;
  std::optional<double> upstream = {};  ///< known before backward, rounded to the sum's precision
  /// [R] fp64 in host memory; undefined: 1. A further factor of each row's gradient, of any
  /// sign.
  at::Tensor row_factors = {};
  at::Tensor row_losses = {};  ///< [R] fp64 in host memory, or undefined: the loss of each row
};

struct WantedGradients {
  bool hidden = false, weight = false, bias = false;
  bool any() const { return hidden || weight || bias; }
};

struct HeadResult {
  at::Tensor sum;  ///< a scalar, in the precision of the head's sums, on the device of `hidden`
  /// If requested; open slots have those of the weight and the bias.
  at::Tensor grad_hidden, grad_weight, grad_bias;
};

/// The loss in chunks of rows, each with its gradients (see linear_cross_entropy for which, and the
/// memory). If the sum is not finite, later chunks are not run; on a device, which would require a
/// wait, all are.
HeadResult run_head_chunks(const HeadInput& input, WantedGradients wanted);

/// Throws a usage Error unless hidden is [..., C], weight [V, C], bias [V] if it is defined, and
/// targets int64 [...].
void expect_head_arguments(std::string_view operation, const at::Tensor& hidden,
                           const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& targets);

}  // namespace accrue::kernels
