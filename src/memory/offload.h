#pragma once

#include <optional>

#include "accrue/memory/offload.h"
#include "memory/counters.h"

namespace accrue::memory {

/// The allocator's part of offloading: it knows files only by these calls.

/// Memory in the file of the OffloadScope for a tensor of that size and tag; null if it belongs in
/// memory.
void* take_offloaded(std::size_t bytes, MemoryTag tag);
/// Whether the block is in the file of a scope, and so returned by give_back_offloaded().
std::optional<Released> give_back_offloaded(void* data);

}  // namespace accrue::memory
