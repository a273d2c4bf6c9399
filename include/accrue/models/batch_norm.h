#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace accrue::models {

/// Batch normalisation (Ioffe and Szegedy, arXiv:1502.03167) over dimension 1 of x [B, C, ...], as
/// data: the code that runs the model decides over which samples statistics are computed.
struct BatchNorm {
  std::string name;            ///< "layer1.0.bn1"
  at::Tensor weight, bias;     ///< [C] parameters; both undefined without an affine map
  at::Tensor running_mean;     ///< [C] buffers, updated in place; undefined if none are kept
  at::Tensor running_var;      ///< unbiased
  at::Tensor batches_tracked;  ///< int64 scalar
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the new value in the running statistics
};

/// The text in PyTorch's own error, for modules with their own layers: "Expected more than 1 value
/// per channel when training".
inline constexpr std::string_view one_value_per_channel = "more than 1 value per channel";

/// Normalises by the statistics of x; differentiable. Updates the running statistics. A single
/// value per channel has no variance, and running_var becomes NaN: code that uses statistics of
/// micro-batches must reject that case first (train/plan/batch_norm_values.h).
at::Tensor normalise_by_micro_batch(const BatchNorm& layer, const at::Tensor& x);
/// Returns `layer` for a run that does not change the running statistics.
BatchNorm without_running_statistics(BatchNorm layer);
/// Normalises by the running statistics, as in evaluation.
at::Tensor normalise_by_running(const BatchNorm& layer, const at::Tensor& x);

}  // namespace accrue::models
