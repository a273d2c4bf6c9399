#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "integration/ranks/distributed_run.h"
#include "support/faults.h"

namespace accrue::train::testing {

using accrue::testing::Fault;
using accrue::testing::FaultsOfRanks;

inline constexpr int kKilled = 128 + SIGKILL;

/// Runs of several processes with faults at named points of their work (support/faults.h).
class FaultyRanks : public DistributedRun {
 protected:
  std::vector<Program> start(const Config& c, int world, const FaultsOfRanks& faults = {},
                             const Words& more = {}) const {
    const Words words = command(c, more);
    return accrue::testing::start_ranks(folder_, world, world,
                                        [&](int rank) { return with_faults(faults, rank, words); });
  }

  /// `words` after those that arm the faults of a rank.
  Words with_faults(const FaultsOfRanks& faults, int rank, const Words& words) const {
    return accrue::testing::with_faults(faults, rank, folder_, words);
  }

  /// Rank 1 is killed by its fault: expects that the others end and name it. Returns the first
  /// rank's output.
  static std::string expect_rank_1_is_missed(std::vector<Program>& ranks) {
    std::string first;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const Program::Result result = ranks[rank].wait();
      if (rank == 1) {
        EXPECT_EQ(result.status, kKilled) << result.errors;
        continue;
      }
      EXPECT_EQ(result.status, 1);
      EXPECT_THAT(result.errors, ::testing::HasSubstr("no sign of life from rank 1"));
      if (rank == 0) first = result.errors;
    }
    return first;
  }
};

}  // namespace accrue::train::testing
