#pragma once

#include "accrue/accum/gradient_buffer.h"

namespace accrue::accum {

/// Whether `.grad` is to show this parameter's sum.
inline bool shows_sum(const GradientBuffer::Entry& entry) {
  return !entry.slot->fresh && grad_can_view_slot(entry);
}

/// Whether the sum is one as it stands, in another dtype than the parameter's.
inline bool is_narrow(const GradientBuffer::Entry& entry) {
  return !entry.staged && !entry.folded && !grad_can_view_slot(entry);
}

/// Makes `.grad` show the sum. Fresh slots get none, so that autograd hands over its first gradient
/// instead of adding to zeros.
void bind(const GradientBuffer::Entry& entry);

/// Forgets the slot's sum and the marks of what was found in it.
void make_fresh(const GradientBuffer::Entry& entry);

}  // namespace accrue::accum
