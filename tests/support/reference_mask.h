#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <vector>

#include "accrue/core/forward_context.h"
#include "core/rng.h"

namespace accrue::testing {

/// Dropout factors, 0 or 1 / (1 - p), with one scalar Philox call per word: the vectorised masks
/// must equal these to the bit.
class ReferenceMask {
 public:
  ReferenceMask(double probability, const ForwardContext& context, std::int64_t site)
      : probability_(probability),
        use_(philox(words_of(context.window, site),
                    {low(static_cast<std::int64_t>(context.seed)),
                     high(static_cast<std::int64_t>(context.seed))})) {}

  /// [rows, columns] of one sample.
  at::Tensor of_sample(std::int64_t sample, std::int64_t rows, std::int64_t columns) const {
    return factors(sample_key(sample), rows, columns);
  }

  /// [queries, keys] of one head of a sample.
  at::Tensor of_head(std::int64_t sample, std::int64_t head, std::int64_t queries,
                     std::int64_t keys) const {
    return factors(named(head, sample_key(sample)), queries, keys);
  }

 private:
  using Words = std::array<std::uint32_t, 4>;

  static std::uint32_t low(std::int64_t word) { return static_cast<std::uint32_t>(word); }
  static std::uint32_t high(std::int64_t word) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(word) >> 32);
  }
  static Words words_of(std::int64_t a, std::int64_t b) {
    return {low(a), high(a), low(b), high(b)};
  }
  static Words named(std::int64_t name, const Words& within) {
    return philox({low(name), high(name), within[2], within[3]}, {within[0], within[1]});
  }
  Words sample_key(std::int64_t sample) const { return named(sample, use_); }

  at::Tensor factors(const Words& key, std::int64_t rows, std::int64_t columns) const {
    std::vector<double> values;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t counter = column / 64 * 16 + column % 16;
        const Words drawn = philox({low(row), low(counter), key[2], key[3]}, {key[0], key[1]});
        const double uniform = drawn[static_cast<std::size_t>(column % 64 / 16)] * 0x1p-32;
        values.push_back(uniform >= probability_ ? 1 / (1 - probability_) : 0);
      }
    return at::tensor(values, at::kDouble).view({rows, columns});
  }

  double probability_;
  Words use_;
};

}  // namespace accrue::testing
