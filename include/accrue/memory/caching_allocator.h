#pragma once

#include <cstdint>

namespace accrue::memory {

/// Bytes as the allocator counts them.
struct Usage {
  std::int64_t live = 0;          ///< in tensors now
  std::int64_t peak = 0;          ///< most `live` since the last reset_peak()
  std::int64_t reserved = 0;      ///< taken from the system, free lists included
  std::int64_t system_calls = 0;  ///< allocations that went to the system
};

/// Makes libtorch's CPU tensors come from a caching allocator: size classes an eighth apart, free
/// lists, huge pages for blocks of 2 MiB and more (docs/notes/allocator.md says why). To be called
/// once by a program's main, before the first tensor; linking the library changes nothing.
///
/// What is reserved stays within one and a half times the most that was in use at once. Where the
/// system has no more, the free lists are given back and it is asked again; then c10's
/// OutOfMemoryError says what was asked for, in use and reserved. Thread-safe.
void install_caching_allocator();
bool caching_allocator_installed();

/// Zeros where the allocator is not installed.
Usage usage();
void reset_peak();
/// Returns the free lists' memory to the system.
void release_cached();

/// The most resident memory this process ever had (ru_maxrss), in bytes.
std::int64_t peak_resident_bytes();
/// What the process may still take: the cgroup's limit less its use, or the system's free memory.
std::int64_t available_bytes();

}  // namespace accrue::memory
