#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "accrue/memory/shard_scope.h"
#include "memory/page_ranges.h"
#include "memory/unreadable_pages.h"

namespace accrue::memory {

/// The mapping of a ShardScope: addresses without memory, of which blocks and parts of blocks have
/// some. All calls are thread-safe.
class ShardMemory {
 public:
  /// Throws a usage Error if the system has no addresses for it.
  ShardMemory();
  ~ShardMemory();
  ShardMemory(const ShardMemory&) = delete;
  ShardMemory& operator=(const ShardMemory&) = delete;

  /// A block of zeros, page-aligned; null if there are no addresses left. Addresses are not used
  /// twice.
  void* take(std::size_t bytes);
  /// Returns false if the block is not from here.
  bool give_back(void* data);
  bool holds(const void* data) const {
    const auto* const byte = static_cast<const std::byte*>(data);
    return byte >= base_ && byte < base_ + reserved_;
  }
  /// The pages that `bytes` from `data` touch.
  PageRange range_of(const void* data, std::size_t bytes) const;
  /// Has the bytes `kept` of a tensor's in memory, and no others of its.
  void keep_part(std::span<const std::byte> tensor, std::span<const std::byte> kept);
  /// Which of these bytes keep_part() kept; all, if the tensor that they are of was not kept in
  /// part, or was divided by keep_only() since.
  std::span<const std::byte> kept_of(std::span<const std::byte> bytes) const;
  /// Has those of `divided` that are `kept` in memory and takes the others out of it; pages outside
  /// `divided` stay as they are. Both are merged(). Throws a runtime Error if the system refuses.
  void keep_only(const std::vector<PageRange>& divided, const std::vector<PageRange>& kept);
  ShardUsage usage() const;
  void restart_peak();

 private:
  struct Part {
    std::span<const std::byte> tensor, kept;
  };
  void close(const PageRange& range) const;
  void open(const PageRange& range) const;
  // With mutex_ held:
  void change_closed(const std::vector<PageRange>& divided, const std::vector<PageRange>& kept);
  std::int64_t in_memory() const;
  void see_peak();

  std::byte* base_;
  UnreadablePages unreadable_;
  mutable std::mutex mutex_;
  std::size_t end_ = 0;
  std::map<std::size_t, std::size_t> blocks_;  ///< bytes by offset
  std::map<std::size_t, Part> parts_;          ///< of keep_part(), by the tensor's offset
  std::vector<PageRange> closed_;              ///< merged()
  std::int64_t bytes_in_blocks_ = 0, most_in_memory_ = 0;

  static constexpr std::size_t reserved_ = std::size_t{4} << 40;
};

}  // namespace accrue::memory
