#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/batch/order.h"
#include "batch/interleaving.h"

namespace accrue::batch {

/// A part of the data, drawn in proportion to its weight.
struct WeightedPart {
  std::int64_t size = 0;  ///< samples, >= 1
  double weight = 1;      ///< > 0; only the ratio of weights counts
};

/// Draw ordinal -> sample. `shuffle` is a keyed permutation per epoch that needs no memory, so any
/// position can be resumed. Pure: the same (size, order, seed) gives the same samples on every
/// machine.
class Sampler {
 public:
  /// `size` >= 1 samples per epoch; a usage Error otherwise.
  Sampler(std::int64_t size, Order order, std::uint64_t seed);
  /// Several parts, whose samples are numbered one part after the other, alternating by weight
  /// (Interleaving). Each part is traversed separately: after its last sample it starts again, in
  /// another order if that is `shuffle`. An epoch has as many draws as there are samples; it draws
  /// some of a part with a large weight more than once, and not all of another. Throws the errors
  /// of the other constructor, and a usage Error if a weight is not above 0.
  Sampler(const std::vector<WeightedPart>& parts, Order order, std::uint64_t seed);

  /// The sample in [0, size) that draw `ordinal` (epoch * size + position, >= 0) takes.
  std::int64_t sample(std::int64_t ordinal) const;
  std::int64_t size() const { return size_; }
  Order order() const { return order_; }
  /// Whether each epoch takes the same samples in the same order.
  bool repeats_epochs() const { return order_ == Order::sequential && !turns_; }
  /// The number of draws of part `part` among the first `draws`.
  std::int64_t draws_of(std::size_t part, std::int64_t draws) const;

 private:
  struct Part {
    std::int64_t begin = 0, size = 0;  ///< of its samples
    std::uint64_t seed = 0;
  };
  std::int64_t sample_of(const Part& part, std::int64_t number) const;

  std::int64_t size_ = 0;
  Order order_;
  std::vector<Part> parts_;
  std::shared_ptr<const Interleaving> turns_;  ///< null: there is one part
};

}  // namespace accrue::batch
