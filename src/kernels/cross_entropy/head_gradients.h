#pragma once

#include <ATen/ATen.h>

#include "accrue/kernels/grad_slot.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/parameter_gradient.h"

namespace accrue::kernels {

/// The memory in which the weight's gradient is summed over the chunks: its open slot, or a tensor
/// for autograd.
class HeadWeightGradient {
 public:
  explicit HeadWeightGradient(const at::Tensor& weight) : slot_(open_slot_of(weight)) {
    if (slot_ == nullptr) sum_.into = at::empty(weight.sizes(), weight.options());
  }

  /// Adds the gradient of the classes from `first` on for one chunk's rows. Call it for every class
  /// of a chunk before the next chunk.
  void add(std::int64_t first, const at::Tensor& grad_logits, const at::Tensor& hidden) {
    if (slot_ != nullptr && !any_) sum_ = slot_->contribute();
    any_ = true;
    const std::int64_t classes = grad_logits.size(1);
    at::Tensor rows = sum_.into.narrow(0, first, classes);
    gemm_out(rows, grad_logits.t(), hidden, sum_.add);
    if (first + classes == sum_.into.size(0)) sum_.add = true;
  }
  /// Call after the last chunk. Returns autograd's gradient, undefined if a slot has it. A gradient
  /// that is not `whole` is not a contribution: a slot is left unfinished, to be undone.
  at::Tensor take(bool whole) {
    if (slot_ != nullptr) {
      if (any_ && whole) slot_->done();
      return {};
    }
    return any_ ? sum_.into : sum_.into.zero_();
  }

 private:
  GradSlot* slot_;
  Contribution sum_;
  bool any_ = false;
};

/// The bias's gradient, whose sums over the chunks are small enough for separate memory.
class HeadBiasGradient {
 public:
  explicit HeadBiasGradient(const at::Tensor& bias)
      : bias_(bias), sums_(at::zeros({1, bias.size(0)}, bias.options())) {}

  void add(std::int64_t first, const at::Tensor& grad_logits) {
    sums_.narrow(1, first, grad_logits.size(1))
        .add_(grad_logits.sum(0, /*keepdim=*/true, bias_.scalar_type()));
  }
  /// Like HeadWeightGradient::take(): an open slot only receives what is `whole`.
  at::Tensor take(bool whole) {
    if (whole) return row_sum_gradient(bias_, sums_);
    return open_slot_of(bias_) == nullptr ? sums_.zero_().squeeze(0) : at::Tensor();
  }

 private:
  at::Tensor bias_, sums_;
};

}  // namespace accrue::kernels
