#pragma once

#include <cstdint>
#include <vector>

#include "distributed/reduce/buckets.h"
#include "distributed/reduce/deferred_reduce.h"

namespace accrue::distributed {

/// Throws a usage Error if the buffer's sums cannot be added over ranks without rounding them
/// further, or cannot be compressed as requested.
void require_exact_sums(const accum::GradientBuffer& buffer, Compression compress);

/// The positions of the sums of the buffer's slots, by slot.
std::vector<SlotPlace> places_of(const accum::GradientBuffer& buffer);

/// The number of elements of the buffer's sums in ReduceOptions::bucket_bytes.
std::int64_t elements_of(const ReduceOptions& options, const accum::GradientBuffer& buffer);

}  // namespace accrue::distributed
