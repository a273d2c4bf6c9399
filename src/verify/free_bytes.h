#pragma once

#include <cstdint>

namespace accrue::proof {

/// Bytes that tensors may still use, in the machine and in memory.budget.
std::int64_t free_bytes();

}  // namespace accrue::proof
