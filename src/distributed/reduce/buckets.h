#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace accrue::distributed {

/// The position of a parameter's sum: the flat allocation, and the offset in it.
struct SlotPlace {
  std::size_t flat = 0;
  std::int64_t offset = 0;  ///< in elements
  std::int64_t elements = 0;
};

/// A range of one flat allocation that is reduced at once.
struct Bucket {
  std::size_t flat = 0;
  std::int64_t offset = 0;  ///< where its first slot begins, in elements
  std::int64_t elements = 0;
  std::vector<std::size_t> slots;  ///< indices of the places given
};

/// Divides slots into buckets of at most `elements` elements, in the order in which they lie; a
/// larger slot is a separate bucket. Padding between slots of a bucket belongs to it.
///
/// Gradients become final approximately in this order, and no backward is left to hide the last
/// bucket. So towards an allocation's end a bucket takes at most a fourth of what is left, but at
/// least an eighth of `elements`.
std::vector<Bucket> make_buckets(std::span<const SlotPlace> places, std::int64_t elements);

/// Bucket numbers in the order in which the last of their slots was final (`final_at`, by slot;
/// larger is later). Buckets that were ready together stay in the order in which they lie.
std::vector<std::int64_t> readiness_order(const std::vector<Bucket>& buckets,
                                          std::span<const std::int64_t> final_at);

}  // namespace accrue::distributed
