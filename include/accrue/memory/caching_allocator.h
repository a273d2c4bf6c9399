#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "accrue/core/memory_tag.h"

namespace accrue::memory {

/// Bytes as the allocator counts them.
struct Usage {
  std::int64_t live = 0;  ///< in tensors, in the sizes requested
  /// `live` by the MemoryTag of the allocating thread; the entries add up to `live`.
  std::array<std::int64_t, kMemoryTags> live_by_tag{};
  /// Memory that can be resident: blocks in tensors and in free lists, each up to the last page
  /// that a request reached. Matches the growth of the process's resident memory.
  std::int64_t reserved = 0;
  std::int64_t system_calls = 0;  ///< allocations of 64 KiB and more that went to the system
  std::int64_t allocations = 0;   ///< since installation, including failed ones

  std::int64_t live_as(MemoryTag tag) const { return live_by_tag[static_cast<std::size_t>(tag)]; }
};

/// Replaces libtorch's CPU allocator by a caching allocator: size classes an eighth apart, free
/// lists, huge pages for blocks of 2 MiB and more (reasons: docs/notes/allocator.md). Call it once
/// in a program's main, before the first tensor; linking the library does not install it.
///
/// Reserved memory stays within one and a half times the most in use at once since the last
/// release_cached(). If the system has no more memory, the free lists are returned to it and the
/// request is repeated; then c10's OutOfMemoryError states the bytes requested, in use and
/// reserved. Thread-safe. A forked child may continue to allocate.
///
/// `budget_of` selects what set_budget() limits: tensors alone, for a library in another program's
/// process, or all resident memory, for a program; measure_outside() (budget.h) then subtracts the
/// memory outside tensors.
enum class BudgetOf { tensors, process };
void install_caching_allocator(BudgetOf budget_of = BudgetOf::tensors);
bool caching_allocator_installed();
BudgetOf budget_of();

/// Makes the functions below count and limit the memory of `device` through libtorch's allocator
/// for it, instead of host memory: the device that holds the run's tensors. Call it before a
/// budget is set and before the first tensor on the device. The CPU, or no call, means host
/// memory.
///
/// On a device, the first budget becomes a limit of libtorch's allocator; a later change of it only
/// affects plans and messages. `live_by_tag` is unknown there.
void count_device(c10::Device device);
/// Whether allocations are counted: on a device, or by the installed allocator.
bool counts_allocations();
/// Free and total bytes of the counted device; nothing if host memory is counted.
struct DeviceRoom {
  std::int64_t free = 0, all = 0;
};
std::optional<DeviceRoom> device_room();

/// The current counts; zeros if the allocator is not installed.
Usage usage();
/// Returns the memory of the free lists and the free memory of the heap to the system.
void release_cached();

/// Limits `reserved` to `bytes` less left_outside(). An allocation beyond the limit first
/// releases as much of the free lists as it needs, and throws c10's OutOfMemoryError if
/// that is not enough. Memory in tensors is never touched: if the budget is below it,
/// allocations are refused until enough was freed. Free lists beyond the budget are
/// released at once.
///
/// Requests below 64 KiB are counted but never refused, so that bookkeeping cannot fail. nullopt
/// removes the budget. Throws a usage Error if `bytes` is negative, or if the allocator that would
/// enforce it is not installed.
void set_budget(std::optional<std::int64_t> bytes);
std::optional<std::int64_t> budget();
/// The budget for tensors: budget() less left_outside(), at least 0.
std::optional<std::int64_t> tensor_budget();
/// Sets how many bytes of any budget are not for tensors; 0 at first. Free lists beyond the
/// remaining budget are released at once.
void leave_outside(std::int64_t bytes);
std::int64_t left_outside();
/// Counts the resident pages of `reserved`. A block that was never written to has none. It costs
/// about a millisecond per GiB.
std::int64_t resident_in_tensors();

/// The bytes by which the last failed allocation would have exceeded the budget, or its whole size
/// if the system had no memory. 0 if none failed.
std::int64_t last_missing_bytes();
/// The budget for tensors that refused it; nullopt if the system had no memory or none
/// failed.
std::optional<std::int64_t> last_refusing_budget();

/// The largest numbers of bytes within a period.
struct Peak {
  std::int64_t live = 0;
  std::int64_t reserved = 0;
};

/// Measures the peaks in a part of the program: a run, a window in it, a micro-batch in that.
/// Scopes nest like blocks, over all threads; an inner scope leaves the peak of an outer one.
class PeakScope {
 public:
  PeakScope();
  ~PeakScope();
  PeakScope(const PeakScope&) = delete;
  PeakScope& operator=(const PeakScope&) = delete;

  /// The peak since construction. Must not be called while an inner scope exists.
  Peak peak() const;

 private:
  Peak before_;
};

/// For tests. During its lifetime, the `first`-th allocation after construction (1: the next) and
/// the `count` - 1 after it throw c10's OutOfMemoryError, whatever their size and thread. Only one
/// may exist. Throws a usage Error without the installed allocator. Costs nothing if none exists.
class FailingAllocations {
 public:
  explicit FailingAllocations(std::int64_t first, std::int64_t count = 1);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  /// The number of allocations that have failed so far.
  std::int64_t failed() const;

 private:
  std::int64_t before_first_, count_;
};

/// The resident memory of this process in bytes, including mapped files; 0 if the system does not
/// report it.
std::int64_t resident_bytes();
/// The peak resident memory of this process (ru_maxrss), in bytes.
std::int64_t peak_resident_bytes();
/// Page faults of this process that were served without reading from a disk (ru_minflt): the cost
/// of memory that is returned to the system and taken again.
std::int64_t minor_page_faults();
/// Bytes that the process may still use: the cgroup limit less its use, or the free memory.
std::int64_t available_bytes();

}  // namespace accrue::memory
