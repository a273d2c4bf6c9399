#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace accrue::kernels {

struct GradSlot;

/// Where a kernel puts its contribution: adds to `into` where `add` is set, else writes all of it.
/// `done()` is to follow, once, while `into` is alive.
struct Contribution {
  at::Tensor into;
  bool add = false;
};

/// How a slot sums contributions that may not be added to `main` as they are: it hands out memory
/// for one contribution at a time, and folds that into the sum in a pass of its own. The owner of
/// the slots implements it; kernels see only contribute() and done().
///
/// A fold looks at every element. Those that are not finite, or too large for the sum, count as
/// zero, and the slot's `found_non_finite` or `found_too_large` says so: the micro-batch is then to
/// be undone. Only the first of the two is reported of one contribution.
class GradFold {
 public:
  virtual ~GradFold() = default;
  /// Contiguous memory in the parameter's shape; contents undefined unless it is to be added to.
  /// Throws a runtime Error if another contribution is still being made.
  virtual Contribution stage() = 0;
  /// Folds in what was written to the staged memory. Throws a runtime Error if none is.
  virtual void take_staged(GradSlot& slot) = 0;
  /// Folds in a gradient that lies elsewhere, dense and of the parameter's shape.
  virtual void take(GradSlot& slot, const at::Tensor& contribution) = 0;
};

/// The place where one parameter's gradient of a window is summed.
///
/// A slot belongs to whoever owns `main` (accum::GradientBuffer, or a benchmark's scratch memory)
/// and is attached to the parameter, so that a kernel's backward finds it without any registry.
/// While `open`, kernels that can (linear, embedding, norms) put their contribution into `main`
/// themselves and return no gradient to autograd; what arrives from other operators is moved there
/// by the slot's post-accumulate hook. The first contribution of a window writes, later ones add:
/// `fresh` tells which, so no pass zeroes the buffer.
struct GradSlot {
  /// [as the parameter], contiguous; fp32 (fp64 for fp64 parameters), or what `fold` keeps.
  at::Tensor main;
  bool fresh = true;       ///< nothing of this window is in `main` yet
  bool open = false;       ///< a micro-batch is being accumulated; else autograd works as always
  bool in_window = false;  ///< its owner's window is open: no other owner may take the parameter
  /// Same memory as `main` with a version counter of its own: what `.grad` is bound to where the
  /// dtypes agree. Its version tells whether somebody else wrote to it.
  at::Tensor bound;
  std::int64_t bound_version = 0;  ///< of `bound`, after our last write through autograd
  std::int64_t contributions = 0;  ///< in this window
  /// A contribution is being added to `main`. If a kernel throws it stays set, and the sum holds
  /// part of a contribution: the micro-batch is to be undone.
  bool unfinished = false;
  /// In its owner's window, but in no micro-batch of it, a backward pass came to the parameter.
  /// Cleared by the owner of the window.
  bool passed_by = false;
  /// Set by `fold`, cleared by the owner of the window.
  bool found_non_finite = false;
  bool found_too_large = false;    ///< for the units of a fixed-point sum
  std::shared_ptr<GradFold> fold;  ///< null: contributions are written or added to `main` itself
  /// Called after each contribution, on its thread, when the sum already holds it. Set and cleared
  /// by who watches the slot; what it throws leaves the backward.
  std::function<void()> after_contribution;

  explicit GradSlot(at::Tensor main_gradient);

  /// To be called by a kernel that makes a contribution.
  Contribution contribute() {
    if (fold) return fold->stage();
    unfinished = !fresh;
    return {main, !fresh};
  }
  /// To be called by a kernel after it wrote or added its contribution.
  void done() {
    if (fold) fold->take_staged(*this);
    unfinished = false;
    count_contribution();
  }
  /// To be called after a contribution got into `main` by another way.
  void count_contribution() {
    fresh = false;
    ++contributions;
    if (after_contribution) after_contribution();
  }
};

/// Ties `slot` to `parameter` (a leaf that requires a gradient), replacing an earlier slot of
/// ours. Throws a usage Error if the parameter carries somebody else's post-accumulate hook.
/// The parameter shares ownership: it may outlive the buffer.
void attach(const at::Tensor& parameter, std::shared_ptr<GradSlot> slot);
/// Removes our slot, if any, and leaves `.grad` as it is.
void detach(const at::Tensor& parameter);

/// The slot attached to `parameter`, or null.
GradSlot* slot_of(const at::Tensor& parameter);
/// The slot, if attached and open: where a kernel's backward must put the gradient. If it is
/// null, the kernel returns the gradient to autograd: that is so, too, if the parameter has a
/// hook, and in a backward pass of torch::autograd::grad that was asked for this gradient.
GradSlot* open_slot_of(const at::Tensor& parameter);

}  // namespace accrue::kernels
