#pragma once

#include <cstddef>

namespace accrue::memory {

/// Takes `bytes` (a multiple of the page size) of page-aligned memory from the system; null if
/// there is none. Blocks of kHugePageBytes and more are aligned to huge pages, and the kernel is
/// advised to use them.
void* take_from_system(std::size_t bytes);
void return_to_system(void* block, std::size_t bytes);
/// Returns whole pages of a block; the addresses stay mapped, and read as zeros when used again.
void empty_pages(void* pages, std::size_t bytes);

/// The number of the first `bytes` of a block in resident pages; returns `bytes` if the system does
/// not report it.
std::size_t resident_pages_bytes(void* block, std::size_t bytes);

}  // namespace accrue::memory
