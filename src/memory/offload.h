#pragma once

#include <cstddef>

#include "accrue/core/memory_tag.h"
#include "accrue/memory/offload.h"

namespace accrue::memory {

/// The allocator's part of offloading: it knows files only by these calls.

/// Memory in the file of the OffloadScope for a tensor of that size and tag; null if it belongs in
/// memory.
void* take_offloaded(std::size_t bytes, MemoryTag tag);
/// Returns a block to the file of its scope; false if it is in none.
bool give_back_offloaded(void* data);

}  // namespace accrue::memory
