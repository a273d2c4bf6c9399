#include "accrue/memory/caching_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <pthread.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "memory/cached_blocks.h"
#include "memory/counted_memory.h"
#include "memory/counters.h"
#include "memory/device_memory.h"
#include "memory/offload.h"
#include "memory/shard_blocks.h"
#include "memory/small_blocks.h"

namespace accrue::memory {
namespace {

class CachingAllocator final : public c10::Allocator, public CountedMemory {
 public:
  /// Null until installed. Never destroyed: tensors in static variables free their memory after all
  /// of this library's destructors.
  static std::atomic<CachingAllocator*>& installed() {
    static std::atomic<CachingAllocator*> allocator{nullptr};
    return allocator;
  }

  CachingAllocator(c10::Allocator* previous, BudgetOf budget_of)
      : budget_of_(budget_of), previous_(previous) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = bytes == 0 ? nullptr : take(bytes);
    return {data, data, &CachingAllocator::deallocate, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &CachingAllocator::deallocate; }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

  BudgetOf budget_of() const override { return budget_of_; }
  Usage usage() const override { return counters_.usage(); }
  void set_budget(std::optional<std::int64_t> bytes) override { cached_.set_budget(bytes); }
  std::optional<std::int64_t> budget() override { return cached_.limits().budget; }
  std::optional<std::int64_t> tensor_budget() override { return cached_.limits().for_tensors(); }
  void leave_outside(std::int64_t bytes) override { cached_.leave_outside(bytes); }
  std::int64_t left_outside() override { return cached_.limits().outside; }
  std::int64_t resident_in_tensors() override { return cached_.resident_now(); }
  Peak peak() const override { return counters_.peak(); }
  Peak restart_peak() override { return counters_.restart_peak(); }
  void raise_peak(const Peak& peak) override { counters_.raise_peak(peak); }
  std::int64_t last_missing_bytes() const override { return last_missing_bytes_; }
  std::optional<std::int64_t> last_refusing_budget() const override {
    const std::int64_t budget = last_refusing_budget_;
    return budget == kNoBudget ? std::nullopt : std::optional(budget);
  }

  Counters& counters() { return counters_; }
  CachedBlocks& cached() { return cached_; }

 private:
  void* take(std::size_t bytes) {
    const MemoryTag tag = memory_tag();
    if (!counters_.count_allocation()) refuse_system(bytes);
    void* data = take_offloaded(bytes, tag);
    if (data == nullptr) data = take_in_shard_scope(bytes, tag);
    if (data == nullptr) {
      data = bytes < kSmallestCachedBytes ? take_small(bytes, tag) : take_cached(bytes, tag);
      counters_.add_live(bytes, tag);
    }
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return data;
  }

  void* take_small(std::size_t bytes, MemoryTag tag) {
    void* data = small_.take(bytes, tag);
    if (data != nullptr) return data;
    cached_.release_free();
    data = small_.take(bytes, tag);
    if (data == nullptr) refuse_system(bytes);
    return data;
  }

  void* take_cached(std::size_t bytes, MemoryTag tag) {
    if (bytes > kLargestRequestBytes) refuse_system(bytes);
    const CachedBlocks::Allocation taken = cached_.take(bytes, tag);
    if (taken.over_budget > 0) refuse_budget(bytes, taken.over_budget);
    if (taken.data == nullptr) refuse_system(bytes);
    return taken.data;
  }

  static void deallocate(void* data) {
    if (data != nullptr) installed().load()->give_back(data);
  }

  void give_back(void* data) {
    // This comes first, since another thread may get the block before give_back() returns.
    c10::profiledCPUMemoryReporter().Delete(data);
    if (give_back_offloaded(data) || give_back_to_shard_scope(data)) return;
    if (const auto block = own_block_given_back(data)) {
      counters_.remove_live(*block);
    } else {
      // The block was taken through raw_allocate() before the installation: a tensor has its own
      // deleter.
      previous_->raw_deleter()(data);
    }
  }

  std::optional<Released> own_block_given_back(void* data) {
    if (reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0)
      if (const auto block = cached_.give_back(data)) return block;
    if (SmallBlocks::owns(data)) return small_.give_back(data);
    return std::nullopt;
  }

  [[noreturn]] void refuse_system(std::size_t bytes) {
    last_refusing_budget_ = kNoBudget;
    refuse(bytes, static_cast<std::int64_t>(std::min(bytes, kLargestRequestBytes)),
           "none from the system");
  }

  [[noreturn]] void refuse_budget(std::size_t bytes, std::int64_t missing) {
    const std::int64_t budget = cached_.limits().for_tensors().value_or(0);
    last_refusing_budget_ = budget;
    refuse(bytes, missing,
           format_bytes(missing) + " (" + std::to_string(missing) +
               " bytes) too few in a budget of " + format_bytes(budget) + " for tensors");
  }

  [[noreturn]] void refuse(std::size_t bytes, std::int64_t missing, const std::string& received) {
    last_missing_bytes_ = missing;
    c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
    const Usage now = counters_.usage();
    const auto requested = static_cast<std::int64_t>(std::min(bytes, kLargestRequestBytes));
    TORCH_CHECK_WITH(OutOfMemoryError, false, "allocate a CPU tensor: expected memory for ", bytes,
                     " bytes (", format_bytes(requested), "), received ", received, " with ",
                     format_bytes(now.live), " in tensors and ", format_bytes(now.reserved),
                     " reserved; try a smaller micro-batch");
    std::abort();  // not reached: the check always throws
  }

  static constexpr std::int64_t kNoBudget = -1;
  static constexpr std::size_t kLargestRequestBytes =
      static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max() / 2);

  BudgetOf budget_of_;
  c10::Allocator* previous_;
  Counters counters_;
  SmallBlocks small_{counters_};
  CachedBlocks cached_{counters_};
  std::atomic<std::int64_t> last_missing_bytes_{0};
  std::atomic<std::int64_t> last_refusing_budget_{kNoBudget};
};

/// The memory that all counts and limits here refer to.
CountedMemory& counted_memory() {
  static CountedMemory& by_nobody = *new CountedMemory;  // tensors outlive static variables
  if (DeviceMemory* const device = counted_device()) return *device;
  if (CachingAllocator* const allocator = CachingAllocator::installed()) return *allocator;
  return by_nobody;
}

}  // namespace

void install_caching_allocator(BudgetOf budget_of) {
  static std::once_flag once;
  std::call_once(once, [budget_of] {
    auto* const allocator = new CachingAllocator(c10::GetCPUAllocator(), budget_of);
    CachingAllocator::installed() = allocator;
    c10::SetCPUAllocator(allocator);
    const auto unlock = [] { CachingAllocator::installed().load()->cached().unlock(); };
    pthread_atfork([] { CachingAllocator::installed().load()->cached().lock(); }, unlock, unlock);
  });
}

bool caching_allocator_installed() { return CachingAllocator::installed() != nullptr; }

BudgetOf budget_of() { return counted_memory().budget_of(); }

Usage usage() { return counted_memory().usage(); }

void release_cached() {
  if (CachingAllocator* const allocator = CachingAllocator::installed())
    allocator->cached().release_free();
#ifdef __GLIBC__
  malloc_trim(0);  // memory that the heap keeps of freed blocks is in none of our free lists
#endif
  if (DeviceMemory* const device = counted_device()) device->release_cached();
}

void set_budget(std::optional<std::int64_t> bytes) {
  if (!bytes && !counts_allocations()) return;
  if (bytes && *bytes < 0)
    throw usage_error("set the memory budget", "0 bytes or more", std::to_string(*bytes),
                      "a size such as \"6GiB\"");
  counted_memory().set_budget(bytes);
}

std::optional<std::int64_t> budget() { return counted_memory().budget(); }

std::optional<std::int64_t> tensor_budget() { return counted_memory().tensor_budget(); }

void leave_outside(std::int64_t bytes) { counted_memory().leave_outside(bytes); }

std::int64_t left_outside() { return counted_memory().left_outside(); }

std::int64_t resident_in_tensors() { return counted_memory().resident_in_tensors(); }

std::int64_t last_missing_bytes() { return counted_memory().last_missing_bytes(); }

std::optional<std::int64_t> last_refusing_budget() {
  return counted_memory().last_refusing_budget();
}

PeakScope::PeakScope() : before_(counted_memory().restart_peak()) {}

PeakScope::~PeakScope() { counted_memory().raise_peak(before_); }

Peak PeakScope::peak() const { return counted_memory().peak(); }

FailingAllocations::FailingAllocations(std::int64_t first, std::int64_t count) : count_(count) {
  CachingAllocator* const allocator = CachingAllocator::installed();
  if (allocator == nullptr) throw not_installed("make allocations fail");
  Counters& counters = allocator->counters();
  before_first_ = counters.usage().allocations + first - 1;
  counters.fail(before_first_ + 1, before_first_ + 1 + count);
}

FailingAllocations::~FailingAllocations() {
  CachingAllocator::installed().load()->counters().fail_none();
}

std::int64_t FailingAllocations::failed() const {
  return std::clamp<std::int64_t>(usage().allocations - before_first_, 0, count_);
}

}  // namespace accrue::memory
