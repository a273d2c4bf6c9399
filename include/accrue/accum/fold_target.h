#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::accum {

/// Takes each micro-batch's gradient as it is made, if no buffer is to hold their sum. The state
/// of an optimizer can be one (optim::Optimizer::fold_target).
///
/// What was folded cannot be taken out again. So a buffer folds only what it found to be finite,
/// and a window that ends without a step after something was folded leaves the target torn.
class FoldTarget {
 public:
  virtual ~FoldTarget() = default;
  /// Whether it takes gradients of `parameter`.
  virtual bool takes(const at::Tensor& parameter) const = 0;
  /// Whether a micro-batch's gradient of a parameter may come in parts: the target is linear in it.
  /// If it is not, the parts are added up before.
  virtual bool takes_parts() const = 0;
  /// Folds in contribution * scale. `contribution` is contiguous, finite, in the parameter's shape,
  /// and fp32 (fp64 for fp64 parameters).
  virtual void fold(const at::Tensor& parameter, const at::Tensor& contribution, double scale) = 0;
  /// Whether something was folded in since the last step, so that the state lies between two steps.
  virtual bool is_between_steps() const = 0;
};

}  // namespace accrue::accum
