#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace accrue::dist {

/// Where a parameter lies in a flat buffer, in elements.
struct FlatRange {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};

/// The part of a parameter that lies in one shard.
struct ShardPiece {
  std::size_t parameter = 0;         ///< its place in the ranges given
  std::int64_t parameter_begin = 0;  ///< the piece's first element, counted in the parameter
  std::int64_t shard_begin = 0;      ///< and in the shard
  std::int64_t elements = 0;         ///< > 0
  bool operator==(const ShardPiece&) const = default;
};

/// A flat buffer divided among ranks: `world` contiguous shards of one size, as reduce-scatter and
/// all-gather need them, whatever parameters they cut (Shoeybi et al., "Megatron-LM",
/// arXiv:1909.08053; Rajbhandari et al., "ZeRO", arXiv:1910.02054, stage 1). The shards' size is a
/// multiple of `alignment`, so that together they may reach beyond the buffer, which is then padded
/// with zeros; the last shards may be empty.
///
/// Pieces name a parameter and a range of it, nothing of the layout: state that is stored by
/// parameter and range can be read back by any other layout. A step that treats elements one by one
/// gives the same bits in pieces as in whole parameters; one that treats blocks of them together
/// (8-bit state) does where cuts fall between blocks.
class ShardLayout {
 public:
  /// Throws a usage Error where `elements` < 0, `world` < 1 or `alignment` < 1. 16 elements of fp32
  /// are a cache line.
  ShardLayout(std::int64_t elements, std::int64_t world, std::int64_t alignment = 16);

  std::int64_t world() const { return world_; }
  std::int64_t elements() const { return elements_; }
  std::int64_t shard_elements() const { return shard_elements_; }  ///< with padding
  std::int64_t padded_elements() const { return world_ * shard_elements_; }
  /// Of the shard of `rank`: its elements in the buffer, without padding.
  FlatRange range(std::int64_t rank) const;
  /// What the shard holds of each parameter, in order of `parameters`; those that it holds nothing
  /// of are left out.
  std::vector<ShardPiece> pieces(std::int64_t rank, std::span<const FlatRange> parameters) const;

 private:
  std::int64_t elements_, world_, shard_elements_;
};

}  // namespace accrue::dist
