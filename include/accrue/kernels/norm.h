#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace accrue::kernels {

/// Layer normalisation over the last dimension C (Ba, Kiros, Hinton: arXiv:1607.06450),
/// differentiable. x: [..., C] fp32 or fp64; weight: [C], bias: [C], masters. The result has dtype
/// `out` (that of x, or bf16 for the next GEMM). Statistics are computed in fp32 (fp64 for fp64).
/// The gradients of weight and bias are added to their open slots.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps, at::ScalarType out);

/// The norm before a residual connection: returns {x, layer_norm(x)}, so that the norm's backward
/// pass also adds the gradient of x.
std::pair<at::Tensor, at::Tensor> branch_layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias, double eps,
                                                    at::ScalarType out);

/// A residual connection and the norm after it in one pass: returns {x + y, layer_norm(x + y)}. x:
/// [..., C] fp32 or fp64 (the residual stream); y: the same shape, dtype of x or bf16.
std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y,
                                                 const at::Tensor& weight, const at::Tensor& bias,
                                                 double eps, at::ScalarType out);

struct RmsNormOptions {
  double eps = 1e-6;
  double offset = 0;  ///< added to the weight: Gemma's files store the weight less 1
};

/// x / sqrt(mean(x^2) + eps) * (weight + offset) over the last dimension C (Zhang and Sennrich,
/// arXiv:1910.07467), differentiable. x: [..., C] fp32, fp64 or bf16; weight: [C], a master in the
/// dtype of x (fp32 for bf16 x). The result has dtype `out`: that of x, or bf16. Intermediate
/// values are in fp32 (fp64 for fp64). The weight's gradient is added to its open slot, and is only
/// computed if the weight needs one.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, const RmsNormOptions& options,
                    at::ScalarType out);

/// Returns {x, rms_norm(x)}, like branch_layer_norm(). x is fp32 or fp64.
std::pair<at::Tensor, at::Tensor> branch_rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                                  const RmsNormOptions& options,
                                                  at::ScalarType out);

/// Returns {x + y, rms_norm(x + y)}, like add_layer_norm().
std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y,
                                               const at::Tensor& weight,
                                               const RmsNormOptions& options, at::ScalarType out);

}  // namespace accrue::kernels
