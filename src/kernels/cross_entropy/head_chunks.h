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
  /// [R] fp64 in host memory; undefined: 1. What the gradient of each row is multiplied with
  /// besides, of any sign.
  at::Tensor row_factors = {};
  at::Tensor row_losses = {};  ///< [R] fp64 in host memory, or undefined: gets the loss of each row
};

struct WantedGradients {
  bool hidden = false, weight = false, bias = false;
  bool any() const { return hidden || weight || bias; }
};

struct HeadResult {
  at::Tensor sum;  ///< a scalar, in the precision of the head's sums, where `hidden` is
  /// Where wanted; slots that are open have those of the weight and the bias.
  at::Tensor grad_hidden, grad_weight, grad_bias;
};

/// The loss by chunks of rows, each chunk with its gradients (linear_cross_entropy says which, and
/// what is held). Where the sum is not finite the chunks behind it are not run; on a device, which
/// would have to be waited for, all are.
HeadResult run_head_chunks(const HeadInput& input, WantedGradients wanted);

/// Throws a usage Error unless hidden is [..., C], weight [V, C], bias [V] where it is defined, and
/// targets int64 [...].
void expect_head_arguments(std::string_view operation, const at::Tensor& hidden,
                           const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& targets);

}  // namespace accrue::kernels
