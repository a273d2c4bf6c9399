#include "memory/shard_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <numeric>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::memory {
namespace {

constexpr const char* kDividing = "divide the model among ranks (dist.shard = \"all\")";

std::byte* reserve_addresses(std::size_t bytes) {
  void* const base =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    throw usage_error(kDividing, "addresses for the model", std::strerror(errno),
                      "a larger limit of addresses (ulimit -v)");
  return static_cast<std::byte*>(base);
}

void require_done(int result) {
  if (result == 0) return;
  throw runtime_error(kDividing, "pages that can be taken out of memory and brought back",
                      std::generic_category().message(errno),
                      "a larger limit of mappings (vm.max_map_count)");
}

std::int64_t total_of(const std::vector<PageRange>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), std::int64_t{0},
                         [](std::int64_t sum, const PageRange& range) {
                           return sum + static_cast<std::int64_t>(range.bytes());
                         });
}

}  // namespace

ShardMemory::ShardMemory()
    : base_(reserve_addresses(reserved_)),
      unreadable_(
          SIGSEGV, base_, reserved_,
          "error: " +
              std::string(runtime_error(kDividing, "passes that read what their segment lists",
                                        "one that reads a part that is not in memory",
                                        "dist.shard = \"optimizer\", and report this")
                              .what()) +
              "\n") {}

ShardMemory::~ShardMemory() { ::munmap(base_, reserved_); }

PageRange ShardMemory::range_of(const void* data, std::size_t bytes) const {
  const auto begin = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
  return {down_to_page(begin), up_to_page(begin + bytes)};
}

/// Values are lost: a page that is opened again is zero.
void ShardMemory::close(const PageRange& range) const {
  require_done(::mprotect(base_ + range.begin, range.bytes(), PROT_NONE));
  require_done(::madvise(base_ + range.begin, range.bytes(), MADV_DONTNEED));
}

void ShardMemory::open(const PageRange& range) const {
  require_done(::mprotect(base_ + range.begin, range.bytes(), PROT_READ | PROT_WRITE));
}

std::int64_t ShardMemory::in_memory() const { return bytes_in_blocks_ - total_of(closed_); }

void ShardMemory::see_peak() { most_in_memory_ = std::max(most_in_memory_, in_memory()); }

void* ShardMemory::take(std::size_t bytes) {
  const std::size_t capacity = up_to_page(bytes);
  const std::lock_guard lock(mutex_);
  if (capacity > reserved_ - end_) return nullptr;
  if (::mprotect(base_ + end_, capacity, PROT_READ | PROT_WRITE) != 0) return nullptr;
  const std::size_t place = end_;
  end_ += capacity;
  blocks_[place] = capacity;
  bytes_in_blocks_ += static_cast<std::int64_t>(capacity);
  see_peak();
  return base_ + place;
}

bool ShardMemory::give_back(void* data) {
  if (!holds(data)) return false;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<std::size_t>(static_cast<std::byte*>(data) - base_));
  if (found == blocks_.end()) return false;
  const PageRange block{found->first, found->first + found->second};
  blocks_.erase(found);
  parts_.erase(block.begin);
  closed_ = without(closed_, {block});
  bytes_in_blocks_ -= static_cast<std::int64_t>(block.bytes());
  ::madvise(base_ + block.begin, block.bytes(), MADV_DONTNEED);
  ::mprotect(base_ + block.begin, block.bytes(), PROT_NONE);
  return true;
}

void ShardMemory::keep_part(std::span<const std::byte> tensor, std::span<const std::byte> kept) {
  const PageRange whole = range_of(tensor.data(), tensor.size());
  const std::lock_guard lock(mutex_);
  change_closed({whole}, merged({range_of(kept.data(), kept.size())}));
  parts_[whole.begin] = {tensor, kept};
}

std::span<const std::byte> ShardMemory::kept_of(std::span<const std::byte> bytes) const {
  const std::lock_guard lock(mutex_);
  const auto after = parts_.upper_bound(static_cast<std::size_t>(bytes.data() - base_));
  if (after == parts_.begin()) return bytes;
  const Part& part = std::prev(after)->second;
  const std::byte *const begin = bytes.data(), *const end = begin + bytes.size();
  if (begin >= part.tensor.data() + part.tensor.size()) return bytes;
  const std::byte* const first = std::clamp(part.kept.data(), begin, end);
  return {first, std::clamp(part.kept.data() + part.kept.size(), begin, end)};
}

void ShardMemory::keep_only(const std::vector<PageRange>& divided,
                            const std::vector<PageRange>& kept) {
  const std::lock_guard lock(mutex_);
  for (const PageRange& range : divided)
    parts_.erase(parts_.lower_bound(range.begin), parts_.lower_bound(range.end));
  change_closed(divided, kept);
}

/// Closes before it opens, so that memory does not grow by both.
void ShardMemory::change_closed(const std::vector<PageRange>& divided,
                                const std::vector<PageRange>& kept) {
  std::vector<PageRange> closed = without(closed_, divided);
  for (const PageRange& range : without(divided, kept)) closed.push_back(range);
  closed = merged(std::move(closed));
  for (const PageRange& range : without(closed, closed_)) close(range);
  for (const PageRange& range : without(closed_, closed)) open(range);
  closed_ = std::move(closed);
  see_peak();
}

ShardUsage ShardMemory::usage() const {
  const std::lock_guard lock(mutex_);
  return {.state = bytes_in_blocks_, .in_memory = in_memory(), .most_in_memory = most_in_memory_};
}

void ShardMemory::restart_peak() {
  const std::lock_guard lock(mutex_);
  most_in_memory_ = in_memory();
}

}  // namespace accrue::memory
