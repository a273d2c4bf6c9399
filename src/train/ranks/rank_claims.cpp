#include "train/ranks/rank_claims.h"

#include <cmath>
#include <utility>

#include "core/digits.h"
#include "distributed/schedule/window_shares.h"

namespace accrue::train {
namespace {

/// Positions among a rank's figures.
constexpr std::size_t kWeightOfNext = distributed::WindowShares::kFigures,
                      kUnreadable = kWeightOfNext + 1;
/// In place of a weight: no rank weighed that share.
constexpr double kUnknown = -1;
/// Weights may be added up in fp32, and in another order: they may differ by a few of its epsilons.
/// A smaller error changes a mean by no more than that.
constexpr double kRounding = 1e-6;

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

std::vector<double> RankClaims::figures(std::span<const batch::Range> shares,
                                        const WindowRun& run) const {
  const std::size_t next = (rank_ + 1) % world_;
  const bool weighs = weigh_ && world_ > 1 && !run.went_on;
  return {weighs ? weigh_(shares[next]) : kUnknown, static_cast<double>(run.unreadable.size())};
}

std::optional<RankClaims::False> RankClaims::find_false(
    std::span<const accum::RankStatement> of_ranks) const {
  for (std::size_t rank = 0; rank < world_; ++rank) {
    const accum::RankStatement& stated = of_ranks[rank];
    const double by_labels = of_ranks[(rank + world_ - 1) % world_].figures.at(kWeightOfNext);
    const bool is_whole = stated.quarantined == 0 && stated.figures.at(kUnreadable) == 0;
    if (is_possible(stated.weight) && holds(stated.weight, by_labels, is_whole)) continue;
    const std::string said =
        "a weight of " + in_digits(stated.weight) + " of rank " + std::to_string(rank);
    const std::string why = by_labels == kUnknown ? ", which is to be finite and not negative"
                                                  : ", whose samples have " +
                                                        std::string(is_whole ? "" : "at most ") +
                                                        in_digits(by_labels) + " by their labels";
    return False{.rank = static_cast<std::int64_t>(rank), .in_words = said + why};
  }
  return std::nullopt;
}

}  // namespace accrue::train
