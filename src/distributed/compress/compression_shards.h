#pragma once

#include <cstdint>

namespace accrue::distributed {

/// A range of a flat buffer, in elements.
struct FlatRange {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};

/// A flat buffer divided among ranks: `world` contiguous shards of one size, for reduce-scatter and
/// all-gather of a compressed sum. The shards' size is a multiple of `alignment`, so together they
/// may extend beyond the buffer, which is then padded with zeros; the last shards may be empty.
/// (The parameters that ranks own are element_range_of(), accrue/core/rank_slice.h.)
class CompressionShards {
 public:
  /// Throws a usage Error if `elements` < 0, `world` < 1 or `alignment` < 1. 16 elements of fp32
  /// are a cache line.
  CompressionShards(std::int64_t elements, std::int64_t world, std::int64_t alignment = 16);

  std::int64_t world() const { return world_; }
  std::int64_t elements() const { return elements_; }
  std::int64_t shard_elements() const { return shard_elements_; }  ///< of each shard, with padding
  std::int64_t padded_elements() const { return world_ * shard_elements_; }
  /// The range of the shard of `rank` in the buffer, without padding.
  FlatRange range(std::int64_t rank) const;

 private:
  std::int64_t elements_, world_, shard_elements_;
};

}  // namespace accrue::distributed
