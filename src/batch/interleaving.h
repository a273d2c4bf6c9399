#pragma once

#include <cstdint>
#include <vector>

namespace accrue::batch {

/// The smallest whole numbers in the ratio of `weights` (positive, finite; at least one), of which
/// six decimal places count, where these sum up to at most `most`. Else the weights are rounded to
/// whole shares of `most`, by the largest remainder and each at least 1. Throws a usage Error if
/// a weight is none, or there are more than `most` or 65,535.
std::vector<std::int64_t> whole_shares(const std::vector<double>& weights, std::int64_t most);

/// In which order draws take turns among sources, in proportion to their weights. Draw n (from 0)
/// is a pure function of the weights; after any number n of draws each source has had n times its
/// share of them, rounded up or down: less than one away, always.
///
/// The turns of a period are those of earliest deadline first: draw j of a source with share w may
/// come from floor(j / w) on and before ceil((j + 1) / w), which goes for all sources at once
/// (Baruah, Cohen, Plaxton, Varvel: "Proportionate progress", Algorithmica 1996). Periods are
/// alike, so any draw is found at once; memory is 6 bytes for each turn of a period.
class Interleaving {
 public:
  static constexpr std::int64_t longest_period = 1'000'000;

  /// Shares are whole_shares(weights, longest_period) of a period, which is their sum.
  explicit Interleaving(const std::vector<double>& weights);

  /// A draw of a source: its `number`th, from 0.
  struct Turn {
    std::size_t source = 0;
    std::int64_t number = 0;
  };
  Turn turn(std::int64_t draw) const;  ///< `draw` >= 0
  /// How many of the first `draws` are of `source`.
  std::int64_t count(std::size_t source, std::int64_t draws) const;
  std::int64_t period() const { return static_cast<std::int64_t>(sources_.size()); }
  /// Draws of each source in a period.
  const std::vector<std::int64_t>& shares() const { return shares_; }

 private:
  std::vector<std::int64_t> shares_;
  std::vector<std::uint16_t> sources_;  ///< whose turn each is
  std::vector<std::uint32_t> numbers_;  ///< which turn of the source within the period
};

}  // namespace accrue::batch
