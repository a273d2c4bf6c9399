#pragma once

#include <cstdint>
#include <vector>

#include "distributed/group/members.h"
#include "train/ranks/state_parts.h"

namespace accrue::simulation {

/// Which member holds what of an optimizer whose state is divided among ranks, with a replica of
/// what the rank before has (dist.shard_replica = "next").
class DividedOptimizer {
 public:
  /// The state is of `tensors` tensors with a few stretches for each of `ranks` ranks.
  DividedOptimizer(std::int64_t tensors, int ranks);

  /// A step that all ranks took.
  void step() { ++steps_; }
  /// What the ranks of the next group tell each other: who was in the one before has what it had
  /// there.
  std::vector<train::RankHoldings> holdings(const std::vector<distributed::Member>& before,
                                            const std::vector<distributed::Member>& now) const;

 private:
  train::StateParts parts_of(std::int64_t rank, std::int64_t world) const;

  std::int64_t tensors_, elements_;
  std::int64_t steps_ = 0;
};

}  // namespace accrue::simulation
