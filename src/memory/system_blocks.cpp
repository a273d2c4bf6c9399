#include "memory/system_blocks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "memory/size_class.h"

namespace accrue::memory {
namespace {

void* map(std::size_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED ? nullptr : block;
}

/// Maps more than requested, and unmaps the parts before and after the aligned block.
void* map_aligned(std::size_t bytes, std::size_t alignment) {
  auto* const raw = static_cast<std::byte*>(map(bytes + alignment));
  if (raw == nullptr) return nullptr;
  const std::size_t before =
      (alignment - reinterpret_cast<std::uintptr_t>(raw) % alignment) % alignment;
  if (before > 0) munmap(raw, before);
  if (before < alignment) munmap(raw + before + bytes, alignment - before);
  return raw + before;
}

}  // namespace

void* take_from_system(std::size_t bytes) {
  if (bytes < kHugePageBytes) return map(bytes);
  void* const block = map_aligned(bytes, kHugePageBytes);
#ifdef MADV_HUGEPAGE
  // This is only advice: a kernel without huge pages provides small ones.
  if (block != nullptr) madvise(block, bytes, MADV_HUGEPAGE);
#endif
  return block;
}

void return_to_system(void* block, std::size_t bytes) { munmap(block, bytes); }

void empty_pages(void* pages, std::size_t bytes) { madvise(pages, bytes, MADV_DONTNEED); }

std::size_t resident_pages_bytes(void* block, std::size_t bytes) {
  constexpr std::size_t kPagesAtOnce = 4096;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::array<unsigned char, kPagesAtOnce> answers{};
  std::size_t resident = 0;
  for (std::size_t at = 0; at < bytes; at += kPagesAtOnce * page) {
    const std::size_t length = std::min(bytes - at, kPagesAtOnce * page);
    if (mincore(static_cast<std::byte*>(block) + at, length, answers.data()) != 0) return bytes;
    const auto end = answers.begin() + static_cast<std::ptrdiff_t>((length + page - 1) / page);
    resident += page * static_cast<std::size_t>(std::count_if(
                           answers.begin(), end, [](unsigned char a) { return (a & 1U) != 0; }));
  }
  return std::min(resident, bytes);
}

}  // namespace accrue::memory
