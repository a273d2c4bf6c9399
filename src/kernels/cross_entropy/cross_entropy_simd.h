#pragma once

#include <cstddef>

#include "kernels/element.h"

namespace accrue::kernels::rows {

/// Single-threaded vectorised passes behind online_cross_entropy.h, compiled once per instruction
/// set and chosen when the program runs. Pointers may be unaligned.

/// logits[0, size), fp32 or fp64, become soft_cap * tanh(logit / soft_cap).
void cap_logits(Element type, void* logits, std::size_t size, double soft_cap);

/// The values that a softmax and its loss need of a block of one row's logits.
struct LogitBlock {
  double top;    ///< the largest logit of this block and those before
  double sum;    ///< of the exponentials of (logit - top)
  double total;  ///< of the logits, if requested
};

/// Reads logits[0, size), fp32 or fp64, size >= 1; `top` is the largest one before them. If
/// `exponentials` is not null, it receives e^(logit - the result's top) in `stored`, the logits'
/// type or bf16; it may begin where `logits` does.
LogitBlock exponentials(Element type, const void* logits, std::size_t size, double top,
                        bool wants_total, Element stored, void* exponentials);

/// The gradient of a block of one row's logits: exponential * scale + shift, and `at_target` at
/// `target`, which is `size` or more if the target is in another block. For capped logits these are
/// their gradient before the cap, except `at_target`: the capped logit, which its derivative takes,
/// is `top` plus the exponential's logarithm.
struct LogitGradient {
  double scale, shift, at_target;
  std::size_t target;
  double soft_cap = 0, top = 0;
};

/// Replaces exponentials[0, size) by the gradient, in place.
void cross_entropy_gradient(Element type, void* exponentials, std::size_t size,
                            const LogitGradient& gradient);

}  // namespace accrue::kernels::rows
