#pragma once

#include <cstddef>

namespace accrue::memory {

/// `bytes` (a multiple of the page size) of page-aligned memory from the system; null where there
/// is none. From kHugePageBytes on it is aligned to huge pages, and the kernel is advised to use
/// them.
void* take_from_system(std::size_t bytes);
void return_to_system(void* block, std::size_t bytes);
/// Whole pages of a block go back; the addresses stay, and read as zeros when next used.
void empty_pages(void* pages, std::size_t bytes);

/// How many of the first `bytes` of a block are in pages that are resident; all where the system
/// does not tell.
std::size_t resident_pages_bytes(void* block, std::size_t bytes);

}  // namespace accrue::memory
