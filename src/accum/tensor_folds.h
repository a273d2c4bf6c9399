#pragma once

#include <ATen/core/Tensor.h>

#include "accum/fold_passes.h"

// The folds of fold_passes.h by ATen's operators on any device: the same bits, but for the order of
// additions that they do not have. A bf16 is a tensor of that dtype here.
namespace accrue::accum::tensor_folds {

/// The largest magnitude in a contribution, fp64, where it lies; infinity if an element is not
/// finite.
at::Tensor largest_of(const at::Tensor& contribution);

void fold_fp64(const at::Tensor& from, at::Tensor& sum, bool add);
void fold_bf16(const at::Tensor& from, at::Tensor& sum, bool add);
void fold_bf16_kahan(const at::Tensor& from, at::Tensor& sum, at::Tensor& compensation, bool add);
void fold_bf16_stochastic(const at::Tensor& from, at::Tensor& sum, bool add,
                          const RoundingStream& stream);
void fold_fixed(const at::Tensor& from, at::Tensor& sum, bool add, const FixedScale& scale);

}  // namespace accrue::accum::tensor_folds
