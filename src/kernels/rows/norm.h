#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accrue::kernels {

// Normalisations of rows without autograd, used by the operations of kernels/norm.h.

/// The parameters of a norm besides its input. Without a bias rows are divided by their root mean
/// square; with one they are also centred.
struct NormPlan {
  const char* name;
  double eps;
  double offset;  ///< added to the weight
  at::ScalarType out;
};

struct NormParameters {
  at::Tensor weight, bias;  ///< the bias may be undefined
  double offset;
  bool wants_weight = false, wants_bias = false;  ///< whether these receive a gradient

  /// The factors of normalised rows.
  at::Tensor factors() const { return (offset == 0 ? weight : weight + offset).contiguous(); }
};

struct Normalised {
  at::Tensor sum, out, statistics;
};

/// x and y (may be undefined) must be contiguous; the norm is of their sum.
Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                     const NormParameters& parameters);

struct NormGradients {
  at::Tensor input, y, weight, bias;
};

/// `input` is what was normalised. `grad_sum`, another gradient of it, may be undefined; the
/// gradient of y is separate only if its dtype is not the input's. Those of the parameters are
/// added to their open slots. Tensors are contiguous.
NormGradients norm_gradients(const NormPlan& plan, const at::Tensor& grad_out,
                             const at::Tensor& grad_sum, const at::Tensor& input,
                             const at::Tensor& statistics, const NormParameters& parameters,
                             at::ScalarType y_dtype);

}  // namespace accrue::kernels
