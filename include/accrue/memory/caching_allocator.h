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
  std::int64_t live = 0;  ///< in tensors now, as they were asked for
  /// `live` by the MemoryTag that the allocating thread had; adds up to it.
  std::array<std::int64_t, kMemoryTags> live_by_tag{};
  /// What can be resident: blocks in tensors and in free lists, each up to the last page that a
  /// request for it reached. Agrees with what the process's resident memory grew by.
  std::int64_t reserved = 0;
  std::int64_t system_calls = 0;  ///< allocations of 64 KiB and more that went to the system
  std::int64_t allocations = 0;   ///< since the installation, those that failed included

  std::int64_t live_as(MemoryTag tag) const { return live_by_tag[static_cast<std::size_t>(tag)]; }
};

/// Makes libtorch's CPU tensors come from a caching allocator: size classes an eighth apart, free
/// lists, huge pages for blocks of 2 MiB and more (docs/notes/allocator.md says why). To be called
/// once by a program's main, before the first tensor; linking the library changes nothing.
///
/// What is reserved stays within one and a half times the most that was in use at once since the
/// last release_cached(). If the system has no more, the free lists are given back and it is
/// asked again; then c10's OutOfMemoryError says what was asked for, in use and reserved.
/// Thread-safe; a forked child may go on allocating.
///
/// `budget_of` says what set_budget() limits: tensors alone, as for a library in somebody's
/// process, or all that is resident, as for a program; measure_outside() (budget.h) takes off what
/// lies outside tensors.
enum class BudgetOf { tensors, process };
void install_caching_allocator(BudgetOf budget_of = BudgetOf::tensors);
bool caching_allocator_installed();
BudgetOf budget_of();

/// From now on all that is told and set here, peaks, budgets and what is left of them, is of the
/// memory of `device`, by libtorch's own allocator for it, instead of host memory: of the device
/// that a run's tensors live on. To be called before a budget is set and before the first tensor
/// there. The CPU, or nothing: host memory.
///
/// On a device a budget is a limit of libtorch's allocator that holds from its first tensor on; a
/// later change of it counts for plans and messages alone. `live_by_tag` is not known.
void count_device(c10::Device device);
/// Whether allocations are counted at all: of a device, or by the installed allocator.
bool counts_allocations();
/// The free and all bytes of the counted device; nothing if host memory is counted.
struct DeviceRoom {
  std::int64_t free = 0, all = 0;
};
std::optional<DeviceRoom> device_room();

/// The bytes by now; zeros if the allocator is not installed.
Usage usage();
/// Returns the free lists' memory to the system, and what the heap has free.
void release_cached();

/// From now on an allocation that would take `reserved` beyond `bytes`, less what is left to what
/// lies outside tensors (leave_outside()), first gives back as much of the free lists as it needs,
/// and throws c10's OutOfMemoryError where that is not enough. Memory already in tensors is never
/// touched: with a budget below it, allocations are refused until enough was freed. Free lists
/// beyond the budget are given back at once.
///
/// Requests below 64 KiB are counted but never refused, so that bookkeeping cannot fail.
/// nullopt: no budget. Throws a usage Error if `bytes` is negative, or the allocator that would
/// hold it is not installed.
void set_budget(std::optional<std::int64_t> bytes);
std::optional<std::int64_t> budget();
/// What the budget leaves to tensors: budget() less left_outside(), at least 0.
std::optional<std::int64_t> tensor_budget();
/// Sets how many bytes of any budget are not for tensors; at first 0. Free lists beyond what is
/// left then are given back at once.
void leave_outside(std::int64_t bytes);
std::int64_t left_outside();
/// Counts the pages of `reserved` that are resident now; a block that was never written to has
/// none. It costs about a millisecond a GiB.
std::int64_t resident_in_tensors();

/// By how many bytes the last allocation that failed would have gone beyond the budget, or all that
/// it asked for where the system had none. 0 if none failed.
std::int64_t last_missing_bytes();
/// The bytes for tensors by the budget that refused it; nullopt if the system had none, or none
/// failed.
std::optional<std::int64_t> last_refusing_budget();

/// Most bytes within some time.
struct Peak {
  std::int64_t live = 0;
  std::int64_t reserved = 0;
};

/// The peaks of a range of the program: a run, a window in it, a micro-batch in that. Scopes nest
/// as blocks do, over all threads; an inner one takes nothing away from those around it.
class PeakScope {
 public:
  PeakScope();
  ~PeakScope();
  PeakScope(const PeakScope&) = delete;
  PeakScope& operator=(const PeakScope&) = delete;

  /// The peak since construction. To be asked while no inner scope lives.
  Peak peak() const;

 private:
  Peak before_;
};

/// For tests. While it lives, the `first`-th allocation from its construction (1: the next) and the
/// `count` - 1 after it throw c10's OutOfMemoryError, whatever their size and thread. One at a
/// time; needs the installed allocator (usage Error). Costs nothing if none lives.
class FailingAllocations {
 public:
  explicit FailingAllocations(std::int64_t first, std::int64_t count = 1);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  /// How many have failed so far.
  std::int64_t failed() const;

 private:
  std::int64_t before_first_, count_;
};

/// The resident memory of this process, files that are mapped included; 0 if the system does not
/// tell.
std::int64_t resident_bytes();
/// The most resident memory this process ever had (ru_maxrss), in bytes.
std::int64_t peak_resident_bytes();
/// Pages that the system has had to map into this process so far without reading them from anywhere
/// (ru_minflt): what memory that is given back and taken again costs.
std::int64_t minor_page_faults();
/// What the process may still take: the cgroup's limit less its use, or the system's free memory.
std::int64_t available_bytes();

}  // namespace accrue::memory
