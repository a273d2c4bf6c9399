#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::accum {

/// Takes the gradient of each micro-batch when it is computed, if no buffer holds their sum. The
/// state of an optimizer can be one (optim::Optimizer::fold_target).
///
/// Folding cannot be undone. A buffer therefore folds only finite gradients, and a window that ends
/// without a step after something was folded leaves the target torn.
class FoldTarget {
 public:
  virtual ~FoldTarget() = default;
  /// Whether it takes gradients of `parameter`.
  virtual bool takes(const at::Tensor& parameter) const = 0;
  /// Whether the gradient of a parameter in one micro-batch may come in parts, because the target
  /// is linear in it. If not, the parts are added up first.
  virtual bool takes_parts() const = 0;
  /// Folds in contribution * scale. `contribution` is contiguous, finite, has the parameter's
  /// shape, and is fp32 (fp64 for fp64 parameters).
  virtual void fold(const at::Tensor& parameter, const at::Tensor& contribution, double scale) = 0;
  /// Whether something was folded in since the last step, so the state lies between two steps.
  virtual bool is_between_steps() const = 0;
};

}  // namespace accrue::accum
