#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "memory/counters.h"
#include "memory/size_class.h"

namespace accrue::memory {

/// Blocks that stay reserved after use, in one free list for each size class, within a budget.
class CachedBlocks {
 public:
  explicit CachedBlocks(Counters& counters) : counters_(counters) {}

  /// A block, or the reason why there is none: the bytes over the budget, or 0 if the system has no
  /// more memory, even after the free lists were returned to it.
  struct Allocation {
    void* data = nullptr;
    std::int64_t over_budget = 0;
  };
  Allocation take(std::size_t bytes, MemoryTag tag);

  /// Returns nothing if the block is not from this allocator.
  std::optional<Released> give_back(void* data);

  /// Releases all free blocks; the bound on reserved memory (excess()) starts again from what is in
  /// use.
  void release_free();

  void set_budget(std::optional<std::int64_t> bytes);
  void leave_outside(std::int64_t bytes);
  struct Limits {
    std::optional<std::int64_t> budget;
    std::int64_t outside = 0;
    std::optional<std::int64_t> for_tensors() const {
      return budget ? std::optional(std::max<std::int64_t>(0, *budget - outside)) : std::nullopt;
    }
  };
  Limits limits();

  /// The resident part of all reserved memory, including small blocks.
  std::int64_t resident_now();

  /// Called around a fork(), so that the child finds the lock free and the lists complete.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Block {
    std::byte* data;
    SizeClass size_class;
    std::size_t resident;  ///< bytes from its start that may be resident
  };
  struct FreeBlock {
    Block block;
    std::uint64_t freed_at;  ///< counted in frees since the start
  };
  struct UsedBlock {
    Block block;
    Released request;
    std::size_t needed() const {
      return touched_bytes(request.bytes, block.size_class.capacity_bytes);
    }
  };

  std::int64_t over_budget(std::size_t needed) const;
  std::optional<Block> reuse(const SizeClass& size_class);
  std::optional<Block> reuse_larger(std::size_t bytes, const SizeClass& than);
  std::optional<Block> map(const SizeClass& size_class);
  void put_to_use(const Block& block, const Released& request);

  std::int64_t excess(std::size_t growth) const;
  void make_room(std::size_t growth);
  std::vector<FreeBlock>* list_of_oldest();
  void shrink(Block& block, std::size_t to);
  void unmap(const Block& block);
  void release_free_locked();

  Counters& counters_;
  std::mutex mutex_;
  Limits limits_;
  std::optional<std::int64_t> budget_;                     ///< for tensors
  std::array<std::vector<FreeBlock>, kSizeClasses> free_;  ///< each from the oldest to the newest
  std::unordered_map<void*, UsedBlock> in_use_;
  std::uint64_t frees_ = 0;
  std::size_t resident_bytes_ = 0;                        ///< of all blocks
  std::size_t needed_bytes_ = 0, most_needed_bytes_ = 0;  ///< of blocks in use, without their tails
};

}  // namespace accrue::memory
