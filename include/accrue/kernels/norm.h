#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace accrue::kernels {

/// Layer normalisation over the last dimension C (Ba, Kiros, Hinton: arXiv:1607.06450),
/// differentiable. x[..., C] fp32 or fp64; weight[C], bias[C] masters. The result has dtype `out`
/// (x's own, or bf16), ready for the next GEMM. Statistics are taken in fp32 (fp64 for fp64).
/// Weight and bias gradients go to their open slots.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps, at::ScalarType out);

/// The norm in front of a residual connection: returns {x, layer_norm(x)}, so that the gradients of
/// both meet in the norm's own pass.
std::pair<at::Tensor, at::Tensor> branch_layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias, double eps,
                                                    at::ScalarType out);

/// The residual connection and the norm behind it in one pass: returns {x + y, layer_norm(x + y)}.
/// x [..., C] fp32 or fp64 (the residual stream); y the same shape, x's dtype or bf16.
std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& y,
                                                 const at::Tensor& weight, const at::Tensor& bias,
                                                 double eps, at::ScalarType out);

struct RmsNormOptions {
  double eps = 1e-6;
  double offset = 0;  ///< added to the weight: Gemma's files keep the weight less 1
};

/// x / sqrt(mean(x^2) + eps) * (weight + offset) over the last dimension C (Zhang and Sennrich,
/// arXiv:1910.07467), differentiable. x[..., C] fp32, fp64 or bf16; weight[C] a master in x's dtype
/// (fp32 for bf16 x). The result has dtype `out`: x's own, or bf16. Everything in between is in
/// fp32 (fp64 for fp64). The weight's gradient goes to its open slot, and is not made for a weight
/// that wants none.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, const RmsNormOptions& options,
                    at::ScalarType out);

/// {x, rms_norm(x)}, as branch_layer_norm(): x is fp32 or fp64.
std::pair<at::Tensor, at::Tensor> branch_rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                                  const RmsNormOptions& options,
                                                  at::ScalarType out);

/// {x + y, rms_norm(x + y)}, as add_layer_norm().
std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& y,
                                               const at::Tensor& weight,
                                               const RmsNormOptions& options, at::ScalarType out);

}  // namespace accrue::kernels
