#include "simulation/divided_optimizer.h"

#include <unordered_map>

namespace accrue::simulation {
namespace {

constexpr std::int64_t kStretchesOfRank = 3;

}  // namespace

DividedOptimizer::DividedOptimizer(std::int64_t tensors, int ranks)
    : tensors_(tensors), elements_(kStretchesOfRank * ranks * kRangeGrain) {}

train::StateParts DividedOptimizer::parts_of(std::int64_t rank, std::int64_t world) const {
  train::StateParts parts{.step = steps_, .ranges = {}};
  for (std::int64_t tensor = 0; tensor < tensors_; ++tensor)
    parts.ranges.push_back(
        element_range_of(elements_, static_cast<std::size_t>(tensor), {rank, world}));
  return parts;
}

std::vector<train::RankHoldings> DividedOptimizer::holdings(
    const std::vector<distributed::Member>& before,
    const std::vector<distributed::Member>& now) const {
  const std::int64_t world = std::ssize(before);
  std::unordered_map<distributed::Member, std::int64_t> rank_before;
  for (std::int64_t rank = 0; rank < world; ++rank)
    rank_before[before[static_cast<std::size_t>(rank)]] = rank;
  std::vector<train::RankHoldings> holdings;
  for (std::int64_t rank = 0; rank < std::ssize(now); ++rank) {
    train::RankHoldings& held = holdings.emplace_back();
    held.wanted = parts_of(rank, std::ssize(now)).ranges;
    const auto was = rank_before.find(now[static_cast<std::size_t>(rank)]);
    if (was == rank_before.end()) continue;
    held.parameters = steps_;
    held.own = parts_of(was->second, world);
    held.replica = parts_of((was->second + world - 1) % world, world);
  }
  return holdings;
}

}  // namespace accrue::simulation
