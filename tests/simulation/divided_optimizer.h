#pragma once

#include <cstdint>
#include <vector>

#include "distributed/group/membership/members.h"
#include "train/ranks/state_parts.h"

namespace accrue::simulation {

/// The members' parts of an optimizer whose state is divided among ranks, each with a replica of
/// the previous rank's part (dist.shard_replica = "next").
class DividedOptimizer {
 public:
  /// The state has `tensors` tensors with a few ranges for each of `ranks` ranks.
  DividedOptimizer(std::int64_t tensors, int ranks);

  /// A step that all ranks took.
  void step() { ++steps_; }
  /// The messages between the ranks of the next group: a member of the previous group has the parts
  /// that it had there.
  std::vector<train::RankHoldings> holdings(const std::vector<distributed::Member>& before,
                                            const std::vector<distributed::Member>& now) const;

 private:
  train::StateParts parts_of(std::int64_t rank, std::int64_t world) const;

  std::int64_t tensors_, elements_;
  std::int64_t steps_ = 0;
};

}  // namespace accrue::simulation
