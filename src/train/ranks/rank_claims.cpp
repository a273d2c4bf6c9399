#include "train/ranks/rank_claims.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace accrue::train {
namespace {

/// In the place of a weight: nobody weighed that share.
constexpr double kUnknown = -1;
/// Of weights that are added up in another order.
constexpr double kRounding = 1e-9;

std::string in_digits(double number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

bool is_possible(double weight) { return std::isfinite(weight) && weight >= 0; }

/// Whether a rank that left out some of its samples, or none, can have this weight.
bool holds(double weight, double by_labels, bool is_whole) {
  if (by_labels == kUnknown) return true;
  const double slack = kRounding * by_labels;
  return weight <= by_labels + slack && (!is_whole || weight >= by_labels - slack);
}

}  // namespace

RankClaims::RankClaims(std::int64_t rank, std::int64_t world, WeighSamples weigh)
    : rank_(static_cast<std::size_t>(rank)),
      world_(static_cast<std::size_t>(world)),
      weigh_(std::move(weigh)) {}

/// The weights of shares by rank, and then how many samples each left out, as it could not read
/// them.
std::vector<double> RankClaims::rank_sums(std::span<const batch::Range> shares,
                                          const WindowRun& run) const {
  std::vector<double> sums(figures(), 0);
  const std::size_t next = (rank_ + 1) % world_;
  sums[next] = weigh_ && world_ > 1 && !run.went_on ? weigh_(shares[next]) : kUnknown;
  sums[world_ + rank_] = static_cast<double>(run.unreadable.size());
  return sums;
}

std::optional<RankClaims::False> RankClaims::find_false(const accum::WindowTotals& stated,
                                                        std::span<const double> sums) const {
  for (std::size_t rank = 0; rank < world_; ++rank) {
    const double weight = stated.weights.at(rank), by_labels = sums[rank];
    const bool is_whole = stated.quarantines.at(rank) == 0 && sums[world_ + rank] == 0;
    if (is_possible(weight) && holds(weight, by_labels, is_whole)) continue;
    const std::string said =
        "a weight of " + in_digits(weight) + " of rank " + std::to_string(rank);
    const std::string why = by_labels == kUnknown ? ", which is to be finite and not negative"
                                                  : ", whose samples have " +
                                                        std::string(is_whole ? "" : "at most ") +
                                                        in_digits(by_labels) + " by their labels";
    return False{.rank = static_cast<std::int64_t>(rank), .in_words = said + why};
  }
  return std::nullopt;
}

}  // namespace accrue::train
