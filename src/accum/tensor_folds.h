#pragma once

#include <ATen/core/Tensor.h>

#include "accum/fold_passes.h"

// The folds of fold_passes.h by ATen's operators on any device, with the same bits except where the
// order of additions differs. Here a bf16 is a tensor of that dtype.
namespace accrue::accum::tensor_folds {

/// The largest magnitude in a contribution, fp64, on its device; infinity if an element is not
/// finite.
at::Tensor largest_of(const at::Tensor& contribution);

void fold_fp64(const at::Tensor& from, at::Tensor& sum, bool add);
void fold_bf16(const at::Tensor& from, at::Tensor& sum, bool add);
void fold_bf16_kahan(const at::Tensor& from, at::Tensor& sum, at::Tensor& compensation, bool add);
void fold_bf16_stochastic(const at::Tensor& from, at::Tensor& sum, bool add,
                          const RoundingStream& stream);
void fold_fixed(const at::Tensor& from, at::Tensor& sum, bool add, const FixedScale& scale);

}  // namespace accrue::accum::tensor_folds
