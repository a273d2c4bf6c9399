#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace accrue::kernels {

/// The place where one parameter's gradient of a window is summed.
///
/// A slot belongs to whoever owns `main` (accum::GradientBuffer, or a benchmark's scratch memory)
/// and is attached to the parameter, so that a kernel's backward finds it without any registry.
/// While `open`, kernels that can (linear, embedding, norms) put their contribution into `main`
/// themselves and return no gradient to autograd; what arrives from other operators is moved there
/// by the slot's post-accumulate hook. The first contribution of a window writes, later ones add:
/// `fresh` tells which, so no pass zeroes the buffer.
struct GradSlot {
  at::Tensor main;         ///< [as the parameter]; fp32 (fp64 for fp64 parameters), contiguous
  bool fresh = true;       ///< nothing of this window is in `main` yet
  bool open = false;       ///< a micro-batch is being accumulated; else autograd works as always
  bool in_window = false;  ///< its owner's window is open: no other owner may take the parameter
  /// Same memory as `main` with a version counter of its own: what `.grad` is bound to where the
  /// dtypes agree. Its version tells whether somebody else wrote to it.
  at::Tensor bound;
  std::int64_t bound_version = 0;  ///< of `bound`, after our last write through autograd
  std::int64_t contributions = 0;  ///< in this window

  explicit GradSlot(at::Tensor main_gradient);

  /// To be called by a kernel after it wrote (fresh) or added (not fresh) its contribution.
  void done() {
    fresh = false;
    ++contributions;
  }
};

/// Ties `slot` to `parameter` (a leaf that requires a gradient), replacing an earlier slot of
/// ours. Throws a usage Error where the parameter carries somebody else's post-accumulate hook.
/// The parameter shares ownership: it may outlive the buffer.
void attach(const at::Tensor& parameter, std::shared_ptr<GradSlot> slot);
/// Removes our slot, if any, and leaves `.grad` as it is.
void detach(const at::Tensor& parameter);

/// The slot attached to `parameter`, or null.
GradSlot* slot_of(const at::Tensor& parameter);
/// The slot, if attached and open: where a kernel's backward must put the gradient. Else null, and
/// the kernel returns the gradient to autograd.
GradSlot* open_slot_of(const at::Tensor& parameter);

}  // namespace accrue::kernels
