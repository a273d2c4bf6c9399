#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace accrue::memory {

/// State that is larger than memory (docs/notes/offloading.md). While the object exists, accrue's
/// allocator places the tensors of a run's state (every MemoryTag but `working`; from 64 KiB) in a
/// file without a name in `folder`, which vanishes with the process. Such tensors are ordinary
/// tensors: their memory is a shared mapping of the file, so every access finds their values. The
/// functions below only decide which part of the state is in memory. The file stays until its last
/// tensor is freed.
///
/// Offloaded tensors do not count in the budget; the largest part of them that was in memory at
/// once counts as memory outside tensors (memory/budget.h).
class OffloadScope {
 public:
  /// The file takes at most `budget` bytes of the disk: a tensor that would exceed them throws a
  /// refused Error. Throws a usage Error if the allocator is not installed or another scope exists,
  /// if no file can be made in the folder, or if the folder lies in memory itself (tmpfs).
  explicit OffloadScope(const std::filesystem::path& folder,
                        std::optional<std::int64_t> budget = std::nullopt);
  ~OffloadScope();
  OffloadScope(const OffloadScope&) = delete;
  OffloadScope& operator=(const OffloadScope&) = delete;
};

/// Whether an OffloadScope exists.
bool is_offloading();
/// Whether the tensor's memory lies in the file of the scope.
bool is_offloaded(const at::Tensor& tensor);

/// States which part of the state is needed: `now` is read first, all else is written back and
/// leaves memory, then `next` is read. This happens in the background, and a later call replaces
/// what was not done yet; an access to values that are not in memory waits for them. Ignores
/// undefined tensors and those that are not offloaded. Throws a runtime Error if the disk has
/// refused a read or a write.
void keep_in_memory(std::span<const at::Tensor> now, std::span<const at::Tensor> next = {});
/// Writes all offloaded state back and waits until it has left memory. Throws a runtime Error if
/// the disk has refused a read or a write.
void leave_memory();
/// Ends the use of the values of `tensor`: it reads as zeros, and they are neither written nor read
/// again. Does nothing if the tensor is not offloaded. Throws a usage Error if its elements are not
/// dense in memory.
void discard(const at::Tensor& tensor);

/// Bytes that were transferred, and the seconds that it took.
struct Transfers {
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// Offloaded state, in bytes, and its transfers since the scope was made.
struct OffloadUsage {
  std::int64_t state = 0;           ///< in tensors now
  std::int64_t most_in_memory = 0;  ///< the largest part of it that was in memory at once
  /// Read from disks by this process: state, for keep_in_memory() or because an access touched it,
  /// with the kernel's read-ahead, and what else the process read. Nothing if the kernel does not
  /// count it (file systems in user space).
  std::optional<std::int64_t> read = 0;
  /// Changed and written as it left memory. Pages that the kernel wrote earlier by itself are not
  /// in it. Nothing if the kernel does not count changed pages (before Linux 6.5, overlay file
  /// systems).
  std::optional<std::int64_t> written = 0;
  /// Seconds in which the `now` of a keep_in_memory() was not in memory yet, or leave_memory() had
  /// not returned: the most that callers waited for what they requested.
  double wait_seconds = 0;
  /// Large transfers for keep_in_memory() and leave_memory(), by which the disk's rates can be
  /// judged: of several megabytes that were indeed read from the disk, or changed and written.
  /// Zeros if the kernel does not count.
  Transfers reading, writing;
};
/// Zeros without a scope.
OffloadUsage offload_usage();

}  // namespace accrue::memory
