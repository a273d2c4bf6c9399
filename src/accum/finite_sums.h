#pragma once

#include "accrue/accum/gradient_buffer.h"

namespace accrue::accum {

/// Whether a slot's sum, and every contribution that was folded into it, is finite. Reads the whole
/// sum, without memory of its size.
bool sum_is_finite(const GradientBuffer::Entry& entry);

/// Whether sum_is_finite() holds for all slots.
bool sums_are_finite(const GradientBuffer& buffer);

}  // namespace accrue::accum
