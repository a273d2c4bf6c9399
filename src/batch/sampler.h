#pragma once

#include <cstdint>

#include "accrue/batch/order.h"

namespace accrue::batch {

/// Draw ordinal -> sample. `shuffle` is a keyed permutation per epoch that needs no memory, so any
/// position can be resumed. Pure: the same (size, order, seed) gives the same samples on every
/// machine.
class Sampler {
 public:
  /// `size` >= 1 samples per epoch; a usage Error otherwise.
  Sampler(std::int64_t size, Order order, std::uint64_t seed);
  /// The sample in [0, size) that draw `ordinal` (epoch * size + position, >= 0) takes.
  std::int64_t sample(std::int64_t ordinal) const;
  std::int64_t size() const { return size_; }
  Order order() const { return order_; }

 private:
  std::int64_t size_;
  Order order_;
  std::uint64_t seed_;
};

}  // namespace accrue::batch
