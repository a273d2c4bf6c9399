#pragma once

#include "accrue/accum/gradient_buffer.h"

namespace accrue::accum {

/// Whether `.grad` must show this parameter's sum.
inline bool shows_sum(const GradientBuffer::Entry& entry) {
  return !entry.slot->fresh && grad_can_view_slot(entry);
}

/// Whether `main` is the sum itself, in another dtype than the parameter's.
inline bool is_narrow(const GradientBuffer::Entry& entry) {
  return !entry.staged && !entry.folded && !grad_can_view_slot(entry);
}

/// Makes `.grad` show the sum. Fresh slots get none, so that autograd stores its first gradient
/// instead of adding to zeros.
void bind(const GradientBuffer::Entry& entry);

/// Clears the slot's sum and its marks.
void make_fresh(const GradientBuffer::Entry& entry);

}  // namespace accrue::accum
