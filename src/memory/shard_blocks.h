#pragma once

#include <cstddef>

#include "accrue/core/memory_tag.h"

namespace accrue::memory {

/// The allocator's part of dividing a model: it knows the mapping only by these calls.

/// Memory in the mapping of the ShardScope for a tensor of that size and tag; null if it belongs
/// elsewhere.
void* take_in_shard_scope(std::size_t bytes, MemoryTag tag);
/// Returns a block to the mapping; false if it is not from there.
bool give_back_to_shard_scope(void* data);

}  // namespace accrue::memory
