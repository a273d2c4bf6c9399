#include "memory/cached_blocks.h"

#include <algorithm>

#include "memory/system_blocks.h"

namespace accrue::memory {
namespace {

/// Blocks up to half as large again serve a request if the budget has no room for a new one.
constexpr std::size_t kClassesAbove = kClassesPerDoubling / 2;

std::int64_t signed_bytes(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

}  // namespace

CachedBlocks::Allocation CachedBlocks::take(std::size_t bytes, MemoryTag tag) {
  const SizeClass size_class = size_class_of(bytes);
  const std::size_t needed = touched_bytes(bytes, size_class.capacity_bytes);
  const std::lock_guard lock(mutex_);
  if (const std::int64_t over = over_budget(needed); over > 0) return {nullptr, over};
  std::optional<Block> block = reuse(size_class);
  if (!block && budget_ && counters_.reserved() + signed_bytes(needed) > *budget_)
    block = reuse_larger(bytes, size_class);
  if (!block) block = map(size_class);
  if (!block) return {};
  put_to_use(*block, {bytes, tag});
  return {block->data};
}

std::optional<Released> CachedBlocks::give_back(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(data);
  if (found == in_use_.end()) return std::nullopt;
  const UsedBlock used = found->second;
  in_use_.erase(found);
  needed_bytes_ -= used.needed();
  free_[used.block.size_class.index].push_back({used.block, frees_++});
  // Only a lowered budget or small blocks lead here: take() itself stays within the budget.
  if (budget_ && counters_.reserved() > *budget_) make_room(0);
  return used.request;
}

void CachedBlocks::release_free() {
  const std::lock_guard lock(mutex_);
  release_free_locked();
  most_needed_bytes_ = needed_bytes_;
}

void CachedBlocks::set_budget(std::optional<std::int64_t> bytes) {
  const std::lock_guard lock(mutex_);
  limits_.budget = bytes;
  budget_ = limits_.for_tensors();
  make_room(0);
}

void CachedBlocks::leave_outside(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  limits_.outside = bytes;
  budget_ = limits_.for_tensors();
  make_room(0);
}

CachedBlocks::Limits CachedBlocks::limits() {
  const std::lock_guard lock(mutex_);
  return limits_;
}

std::int64_t CachedBlocks::resident_now() {
  const std::lock_guard lock(mutex_);
  std::size_t resident = 0;
  for (const auto& [data, used] : in_use_)
    resident += resident_pages_bytes(data, used.block.resident);
  for (const auto& list : free_)
    for (const FreeBlock& free : list)
      resident += resident_pages_bytes(free.block.data, free.block.resident);
  return counters_.reserved() - signed_bytes(resident_bytes_) + signed_bytes(resident);
}

/// The bytes that would still be missing after releasing everything possible: negative or 0 if
/// `needed` fits.
std::int64_t CachedBlocks::over_budget(std::size_t needed) const {
  if (!budget_) return 0;
  const std::int64_t in_small_blocks = counters_.reserved() - signed_bytes(resident_bytes_);
  return in_small_blocks + signed_bytes(needed_bytes_ + needed) - *budget_;
}

std::optional<CachedBlocks::Block> CachedBlocks::reuse(const SizeClass& size_class) {
  auto& list = free_[size_class.index];
  if (list.empty()) return std::nullopt;
  const Block block = list.back().block;
  list.pop_back();
  return block;
}

/// Takes a larger block, in which the request may extend further, if it has room for another huge
/// page.
std::optional<CachedBlocks::Block> CachedBlocks::reuse_larger(std::size_t bytes,
                                                              const SizeClass& than) {
  const std::size_t end = std::min(than.index + kClassesAbove + 1, kSizeClasses);
  for (std::size_t index = than.index + 1; index < end; ++index) {
    if (free_[index].empty()) continue;
    const SizeClass& larger = free_[index].back().block.size_class;
    if (over_budget(touched_bytes(bytes, larger.capacity_bytes)) <= 0) return reuse(larger);
  }
  return std::nullopt;
}

/// Maps a new block, of which nothing is resident yet.
std::optional<CachedBlocks::Block> CachedBlocks::map(const SizeClass& size_class) {
  void* data = take_from_system(size_class.capacity_bytes);
  if (data == nullptr) {
    release_free_locked();
    data = take_from_system(size_class.capacity_bytes);
  }
  if (data == nullptr) return std::nullopt;
  counters_.count_system_call();
  return Block{static_cast<std::byte*>(data), size_class, 0};
}

void CachedBlocks::put_to_use(const Block& block, const Released& request) {
  UsedBlock& used = in_use_.emplace(block.data, UsedBlock{block, request}).first->second;
  const std::size_t needed = used.needed();
  needed_bytes_ += needed;
  most_needed_bytes_ = std::max(most_needed_bytes_, needed_bytes_);
  if (needed <= used.block.resident) return;
  const std::size_t growth = needed - used.block.resident;
  make_room(growth);
  used.block.resident = needed;
  resident_bytes_ += growth;
  counters_.add_reserved(growth);
}

/// The bytes to release before `growth` more may become resident. Besides the budget there is a
/// bound: sequences of ever new lengths would leave a free list for each, so reserved memory stays
/// within one and a half times the most that was ever needed at once. Equal micro-batches never
/// come near it.
std::int64_t CachedBlocks::excess(std::size_t growth) const {
  const std::int64_t bound = signed_bytes(most_needed_bytes_ + most_needed_bytes_ / 2);
  const std::int64_t over_bound = signed_bytes(resident_bytes_ + growth) - bound;
  if (!budget_) return over_bound;
  return std::max(over_bound, counters_.reserved() + signed_bytes(growth) - *budget_);
}

/// Free blocks are released first, those freed longest ago before others and no more than needed;
/// then the tails that requests smaller than a block's earlier ones left.
void CachedBlocks::make_room(std::size_t growth) {
  for (std::int64_t more = excess(growth); more > 0; more = excess(growth)) {
    auto* const list = list_of_oldest();
    if (list == nullptr) break;
    Block& block = list->front().block;
    const std::size_t kept =
        block.resident - std::min(block.resident, static_cast<std::size_t>(more));
    if (const std::size_t whole = kept / kHugePageBytes * kHugePageBytes; whole > 0) {
      shrink(block, whole);
    } else {
      unmap(block);
      list->erase(list->begin());
    }
  }
  if (excess(growth) <= 0) return;
  for (auto& [data, used] : in_use_) {
    shrink(used.block, std::min(used.block.resident, used.needed()));
    if (excess(growth) <= 0) return;
  }
}

/// The free list whose first block was freed before all others; null if all are empty.
std::vector<CachedBlocks::FreeBlock>* CachedBlocks::list_of_oldest() {
  std::vector<FreeBlock>* oldest = nullptr;
  for (auto& list : free_)
    if (!list.empty() && (oldest == nullptr || list.front().freed_at < oldest->front().freed_at))
      oldest = &list;
  return oldest;
}

void CachedBlocks::shrink(Block& block, std::size_t to) {
  const std::size_t bytes = block.resident - to;
  if (bytes == 0) return;
  empty_pages(block.data + to, bytes);
  block.resident = to;
  resident_bytes_ -= bytes;
  counters_.remove_reserved(bytes);
}

void CachedBlocks::unmap(const Block& block) {
  return_to_system(block.data, block.size_class.capacity_bytes);
  resident_bytes_ -= block.resident;
  counters_.remove_reserved(block.resident);
}

void CachedBlocks::release_free_locked() {
  for (auto& list : free_) {
    for (const FreeBlock& free : list) unmap(free.block);
    list.clear();
  }
}

}  // namespace accrue::memory
