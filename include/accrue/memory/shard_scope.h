#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "accrue/core/rank_slice.h"

namespace accrue::memory {

/// Parameters and sums of gradients of which a process keeps a part (docs/notes/shard_all.md).
/// While the object exists, accrue's allocator places tensors with the tags `parameters` and
/// `gradients` (from 64 KiB) in a mapping of its own. They are ordinary tensors at fixed addresses;
/// keep_in_scope() takes pages of them out of memory and brings them back.
///
/// Pages that are out of memory have no values. An access to one ends the process with an error
/// that says so: it never reads a wrong value.
///
/// Such tensors do not count in the budget; the largest part of them that was in memory at once
/// counts as memory outside tensors (memory/budget.h).
class ShardScope {
 public:
  /// Parameters are made in parts: of each, the process keeps that of `slice` (keep_part()); {}
  /// makes them whole. Throws a usage Error if the allocator is not installed, another scope
  /// exists, or the system has no addresses for it.
  explicit ShardScope(const RankSlice& slice = {});
  ~ShardScope();
  ShardScope(const ShardScope&) = delete;
  ShardScope& operator=(const ShardScope&) = delete;
};

/// Whether a ShardScope exists.
bool has_shard_scope();
/// Whether the tensor's memory lies in the mapping of a scope.
bool is_in_shard_scope(const at::Tensor& tensor);

/// Changes the slice of the scope that exists, for later calls of keep_part().
void divide_by(const RankSlice& slice);
/// Has this process keep the part of a contiguous tensor that element_range_of() gives for tensor
/// number `index` and the scope's slice. Its other pages have no values until keep_in_scope() is
/// called for it. Does nothing if the tensor is not in the mapping, or the scope's are whole.
void keep_part(const at::Tensor& tensor, std::size_t index);
/// Which elements of a dense tensor, which may be a view, this process keeps, in the order in which
/// they lie in memory: those of a part after keep_part(), else all.
ElementRange kept_part(const at::Tensor& tensor);
/// Whether that is not all of it.
inline bool is_kept_in_part(const at::Tensor& tensor) {
  return kept_part(tensor).elements != tensor.numel();
}

/// Of the pages that `divided` touch, only those that `kept` touch are in memory afterwards; pages
/// of other tensors stay as they are. A page that comes back is zero. Ignores tensors outside the
/// mapping. No other thread may use these tensors meanwhile.
void keep_in_scope(std::span<const at::Tensor> divided, std::span<const at::Tensor> kept);

/// Tensors in the mapping, in bytes of whole pages.
struct ShardUsage {
  std::int64_t state = 0;           ///< in tensors now
  std::int64_t in_memory = 0;       ///< the part of it that is in memory
  std::int64_t most_in_memory = 0;  ///< the largest such part since restart_shard_peak()
};
ShardUsage shard_usage();
void restart_shard_peak();

}  // namespace accrue::memory
