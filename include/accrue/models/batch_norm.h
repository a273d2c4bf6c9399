#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace accrue::models {

/// Batch normalisation (Ioffe and Szegedy, arXiv:1502.03167) over dimension 1 of x [B, C, ...], as
/// data: whoever runs the model decides over which samples the statistics are taken.
struct BatchNorm {
  std::string name;            ///< "layer1.0.bn1"
  at::Tensor weight, bias;     ///< [C] parameters; both undefined without an affine map
  at::Tensor running_mean;     ///< [C] buffers, updated in place; undefined if none are kept
  at::Tensor running_var;      ///< unbiased
  at::Tensor batches_tracked;  ///< int64 scalar
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the new value in the running statistics
};

/// What PyTorch's own refusal says, if a module has layers of its own: "Expected more than 1
/// value per channel when training".
inline constexpr std::string_view one_value_per_channel = "more than 1 value per channel";

/// Normalises by the statistics of x itself; differentiable. The running statistics move. One value
/// for each channel has no variance, and running_var becomes NaN: whoever keeps the statistics of
/// micro-batches refuses such ones before (train/plan/batch_norm_values.h).
at::Tensor normalise_by_micro_batch(const BatchNorm& layer, const at::Tensor& x);
/// `layer` for a run that leaves the running statistics as they are.
BatchNorm without_running_statistics(BatchNorm layer);
/// Normalises by the running statistics, as in evaluation.
at::Tensor normalise_by_running(const BatchNorm& layer, const at::Tensor& x);

}  // namespace accrue::models
