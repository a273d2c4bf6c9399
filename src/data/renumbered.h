#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/described_by.h"

namespace accrue::data {

/// A source with the samples of another one under other numbers.
class Renumbered : public DescribedBy {
 public:
  using DescribedBy::DescribedBy;

  std::int64_t tokens(std::int64_t index) const override {
    return source().tokens(number_in_source(index));
  }
  std::optional<std::int64_t> class_of(std::int64_t index) const override {
    return source().class_of(number_in_source(index));
  }
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    return source().fetch(numbers_in_source(indices));
  }
  batch::MicroBatch fetch_drawn(std::span<const std::int64_t> indices,
                                std::span<const std::int64_t> draws) const override {
    return source().fetch_drawn(numbers_in_source(indices), draws);
  }

 private:
  /// The number that sample `index` has in the other source. Throws a usage Error if there is no
  /// such sample.
  virtual std::int64_t number_in_source(std::int64_t index) const = 0;

  std::vector<std::int64_t> numbers_in_source(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> found;
    found.reserve(indices.size());
    for (const std::int64_t index : indices) found.push_back(number_in_source(index));
    return found;
  }
};

}  // namespace accrue::data
