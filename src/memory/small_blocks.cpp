#include "memory/small_blocks.h"

#include <cstdlib>
#include <new>

namespace accrue::memory {

void* SmallBlocks::take(std::size_t bytes, MemoryTag tag) {
  void* raw = nullptr;
  if (posix_memalign(&raw, c10::gAlignment, bytes + sizeof(Header)) != 0) return nullptr;
  auto* const header = new (raw) Header;
  void* const data = header + 1;
  header->mark = mark_of(data);
  header->block = {bytes, tag};
  counters_.add_reserved(bytes + sizeof(Header));
  return data;
}

Released SmallBlocks::give_back(void* data) {
  Header* const header = header_of(data);
  const Released block = header->block;
  header->mark = 0;
  counters_.remove_reserved(block.bytes + sizeof(Header));
  std::free(header);
  return block;
}

}  // namespace accrue::memory
