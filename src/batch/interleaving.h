#pragma once

#include <cstdint>
#include <vector>

namespace accrue::batch {

/// The smallest integers in the ratio of `weights` (positive, finite; at least one) with six
/// decimal places, if their sum is at most `most`. Otherwise the weights are rounded to integer
/// shares of `most`, by the largest remainder and each at least 1. Throws a usage Error if a weight
/// is invalid, or there are more than `most` or 65,535.
std::vector<std::int64_t> whole_shares(const std::vector<double>& weights, std::int64_t most);

/// The order in which draws alternate between sources, in proportion to their weights. Draw n (from
/// 0) is a pure function of the weights. After any number n of draws each source has had n times
/// its share of them, rounded up or down: always less than one away.
///
/// The turns of a period follow earliest deadline first: draw j of a source with share w may come
/// from floor(j / w) on and before ceil((j + 1) / w), which is possible for all sources at once
/// (Baruah, Cohen, Plaxton, Varvel: "Proportionate progress", Algorithmica 1996). Periods are
/// equal, so any draw is found at once. Memory is 6 bytes per turn of a period.
class Interleaving {
 public:
  static constexpr std::int64_t longest_period = 1'000'000;

  /// Shares are whole_shares(weights, longest_period) of a period, which is their sum.
  explicit Interleaving(const std::vector<double>& weights);

  /// One draw of a source: its `number`th, from 0.
  struct Turn {
    std::size_t source = 0;
    std::int64_t number = 0;
  };
  Turn turn(std::int64_t draw) const;  ///< `draw` >= 0
  /// The number of draws of `source` among the first `draws`.
  std::int64_t count(std::size_t source, std::int64_t draws) const;
  std::int64_t period() const { return static_cast<std::int64_t>(sources_.size()); }
  /// Draws of each source in a period.
  const std::vector<std::int64_t>& shares() const { return shares_; }

 private:
  std::vector<std::int64_t> shares_;
  std::vector<std::uint16_t> sources_;  ///< the source of each turn
  std::vector<std::uint32_t> numbers_;  ///< number of the turn of the source within the period
};

}  // namespace accrue::batch
