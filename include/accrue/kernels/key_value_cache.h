#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "accrue/kernels/attention.h"

namespace accrue::kernels {

/// The keys and values of a sample's positions so far, for one layer, so that attention for the
/// next position costs one query. Memory grows with the positions that a later query may see; if
/// attention has a window, they are at most about two windows.
class KeyValueCache {
 public:
  struct Shape {
    std::int64_t kv_heads = 1;
    std::int64_t width = 1;  ///< of a head
    std::int64_t most_positions = 1;
    /// The number of keys that a query sees, including its own; 0: all.
    std::int64_t window = 0;
    at::ScalarType dtype = at::kFloat;
  };

  explicit KeyValueCache(const Shape& shape) : shape_(shape) {}

  const Shape& shape() const { return shape_; }
  /// The number of positions appended, including those no longer held.
  std::int64_t positions() const { return first_ + held_; }
  /// The first position that is held.
  std::int64_t first() const { return first_; }

  /// Appends keys and values [1, T, kv_heads * width]. Throws a usage Error if their sizes or dtype
  /// differ, or if they exceed most_positions.
  void append(const at::Tensor& keys, const at::Tensor& values);

  /// Whether all keys that a query at position `positions` sees are held.
  bool can_go_back_to(std::int64_t positions) const;
  /// Removes all positions from `positions` on; 0: all. Requires can_go_back_to(positions).
  void go_back_to(std::int64_t positions);

  /// [kv_heads, positions held, width], with the rows of a head in consecutive memory; valid until
  /// the next append().
  at::Tensor keys() const { return keys_.narrow(1, 0, held_); }
  at::Tensor values() const { return values_.narrow(1, 0, held_); }

 private:
  void expect(const at::Tensor& added) const;
  void make_room(std::int64_t count);

  Shape shape_;
  at::Tensor keys_, values_;  ///< [kv_heads, room, width]; undefined before the first position
  std::int64_t first_ = 0, held_ = 0;
};

/// Attention of T positions after those in `cache`, to which their keys and values are appended.
/// Equals grouped_attention() of the whole sample for its last T positions, up to rounding. q: [1,
/// T, heads * W], k and v: [1, T, kv_heads * W]. No gradient and no dropout. Throws a usage Error
/// if sizes, dtypes, options and cache do not fit.
at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const GroupedAttentionOptions& options, KeyValueCache& cache);

}  // namespace accrue::kernels
