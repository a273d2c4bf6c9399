#pragma once

#include <c10/core/alignment.h>

#include <cstddef>
#include <cstdint>

#include "memory/counters.h"

namespace accrue::memory {

/// Blocks that go to the system's allocator each time. Size and tag are in a header of one cache
/// line before the data, with a mark that no other allocator's block has there.
class SmallBlocks {
 public:
  explicit SmallBlocks(Counters& counters) : counters_(counters) {}

  /// Takes a block; null if the system has no more memory.
  void* take(std::size_t bytes, MemoryTag tag);

  /// Reads the cache line before `data`. For a block of the system's allocator that line is mapped,
  /// since it contains the allocator's bookkeeping; an address sanitizer still guards it.
  [[gnu::no_sanitize_address]] static bool owns(void* data) {
    return header_of(data)->mark == mark_of(data);
  }

  Released give_back(void* data);

 private:
  struct alignas(c10::gAlignment) Header {
    std::uintptr_t mark = 0;
    Released block;
  };
  static Header* header_of(void* data) { return static_cast<Header*>(data) - 1; }
  /// The mark depends on the address, so that a copy of a header elsewhere is not a header.
  static std::uintptr_t mark_of(void* data) {
    constexpr std::uintptr_t kSecret = 0x61636372'75650d5fU;
    return reinterpret_cast<std::uintptr_t>(data) ^ kSecret;
  }

  Counters& counters_;
};

}  // namespace accrue::memory
