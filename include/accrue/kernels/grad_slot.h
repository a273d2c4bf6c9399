#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace accrue::kernels {

struct GradSlot;

/// The memory for a kernel's contribution: the kernel adds to `into` if `add` is set, and otherwise
/// overwrites all of it. It must then call `done()` once, while `into` is alive.
struct Contribution {
  at::Tensor into;
  bool add = false;
};

/// How a slot sums contributions that cannot be added to `main` directly: it provides memory for
/// one contribution at a time, and folds that into the sum in a separate pass. The owner of the
/// slots implements it; kernels only see contribute() and done().
///
/// A fold looks at every element. Elements that are not finite, or too large for the sum, count as
/// zero and set the slot's `found_non_finite` or `found_too_large`: the micro-batch must then be
/// undone. For one contribution only the first of the two is set.
class GradFold {
 public:
  virtual ~GradFold() = default;
  /// Returns contiguous memory in the parameter's shape; contents undefined unless `add` is set.
  /// Throws a runtime Error if another contribution is still in progress.
  virtual Contribution stage() = 0;
  /// Folds in the contents of the staged memory. Throws a runtime Error if there is none.
  virtual void take_staged(GradSlot& slot) = 0;
  /// Folds in a gradient in other memory, dense and of the parameter's shape.
  virtual void take(GradSlot& slot, const at::Tensor& contribution) = 0;
};

/// The place where one parameter's gradient of a window is summed.
///
/// A slot belongs to the owner of `main` (accum::GradientBuffer, or a benchmark's scratch memory)
/// and is attached to the parameter, so a kernel's backward finds it without a registry. While it
/// is `open`, kernels that can (linear, embedding, norms) write their contribution to `main` and
/// return no gradient to autograd; the slot's post-accumulate hook moves gradients of other
/// operators there. The first contribution of a window writes and later ones add, as `fresh`
/// indicates, so no pass has to zero the buffer.
struct GradSlot {
  /// Shape of the parameter, contiguous; fp32 (fp64 for fp64), or what `fold` keeps.
  at::Tensor main;
  bool fresh = true;       ///< no contribution of this window is in `main` yet
  bool open = false;       ///< a micro-batch is being accumulated; otherwise autograd is unchanged
  bool in_window = false;  ///< its owner's window is open: no other owner may take the parameter
  /// The memory of `main` with a separate version counter. `.grad` is bound to it if the dtypes
  /// agree. Its version reveals writes by other code.
  at::Tensor bound;
  std::int64_t bound_version = 0;  ///< of `bound`, after accrue's last write through autograd
  std::int64_t contributions = 0;  ///< in this window
  /// A contribution is being added to `main`. If a kernel throws, it stays set, and the sum holds
  /// part of a contribution: the micro-batch must be undone.
  bool unfinished = false;
  /// A backward pass reached the parameter in its owner's window, but outside a micro-batch.
  /// Cleared by the owner of the window.
  bool passed_by = false;
  /// Set by `fold`, cleared by the owner of the window.
  bool found_non_finite = false;
  bool found_too_large = false;    ///< for the units of a fixed-point sum
  std::shared_ptr<GradFold> fold;  ///< null: contributions are written or added to `main` itself
  /// Called after each contribution, on its thread, when the sum already holds it. Set and cleared
  /// by the observer of the slot. Its exceptions leave the backward.
  std::function<void()> after_contribution;

  explicit GradSlot(at::Tensor main_gradient);

  /// Call in a kernel before it makes a contribution.
  Contribution contribute() {
    if (fold) return fold->stage();
    unfinished = !fresh;
    return {main, !fresh};
  }
  /// Call in a kernel after it wrote or added its contribution.
  void done() {
    if (fold) fold->take_staged(*this);
    unfinished = false;
    count_contribution();
  }
  /// Call after a contribution reached `main` in another way.
  void count_contribution() {
    fresh = false;
    ++contributions;
    if (after_contribution) after_contribution();
  }
};

/// Attaches `slot` to `parameter` (a leaf that requires a gradient), replacing an earlier slot of
/// accrue. Throws a usage Error if the parameter has a post-accumulate hook of other code. The
/// parameter shares ownership of the slot: it may outlive the buffer.
void attach(const at::Tensor& parameter, std::shared_ptr<GradSlot> slot);
/// Removes accrue's slot, if any, and leaves `.grad` unchanged.
void detach(const at::Tensor& parameter);

/// The slot attached to `parameter`, or null.
GradSlot* slot_of(const at::Tensor& parameter);
/// The slot, if it is attached and open: a kernel's backward must write the gradient there. If it
/// is null, the kernel returns the gradient to autograd. It is also null if the parameter has a
/// hook, and in a backward pass of torch::autograd::grad for this gradient.
GradSlot* open_slot_of(const at::Tensor& parameter);

}  // namespace accrue::kernels
