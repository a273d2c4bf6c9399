#include <gtest/gtest.h>

#include <cstdio>

#include "distributed/schedule/leases.h"
#include "integration/ranks/faulty_ranks.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using testing::Fault;
using testing::Words;

/// Two ranks whose clocks make the second one's micro-batches take four times as long.
class UnequalRun : public testing::FaultyRanks {
 protected:
  static constexpr std::int64_t kMicroBatches = 64;

  Config unequal(const std::string& out) const {
    Config c = small(out);
    c.precision.accumulate = accum::Accumulation::fixed;
    c.run.steps = 10;
    c.dist.timeout = {600, Duration::Unit::seconds};  // for clocks that run ahead
    c.batch.tokens = kMicroBatches * *c.model.context;
    c.batch.micro = 1;
    return c;
  }

  void expect_runs_unequally(const Config& c, const Words& checkpoint = {}) const {
    const auto takes = [](const char* seconds) -> std::vector<Fault> {
      return {{.at = "micro-batch", .action = std::string("clock:") + seconds, .count = 0}};
    };
    std::vector<Program> ranks = start(c, 2, {{0, takes("0.5")}, {1, takes("2")}}, checkpoint);
    expect_all_end(ranks, 0);
  }

  /// Micro-batches of both ranks, in a window with all ranks.
  struct Shares {
    std::int64_t step = 0, fast = 0, slow = 0;
  };
  /// Reads the shares that were reported last.
  static Shares last_shares(const Config& c) {
    Shares shares;
    for (const nlohmann::json& line : events_of("leases", c)) {
      long all = 0, fast = 0, slow = 0;
      const std::string reason = line["reason"];
      EXPECT_EQ(
          std::sscanf(reason.c_str(), "%ld micro-batches by rank %ld + %ld", &all, &fast, &slow),
          3);
      EXPECT_EQ(fast + slow, all);
      if (all == kMicroBatches) shares = {line["step"], fast, slow};
    }
    return shares;
  }

  static double pace(const nlohmann::json& rank) {
    return distributed::PaceEstimate(rank["seconds_per_sample"].get<std::vector<double>>())
        .pace()
        .seconds;
  }
  /// The share that follows from the simulated speeds; the machine's own are negligible.
  static void expect_share_of_its_speed(const Config& c, std::int64_t step) {
    const nlohmann::json ranks = ranks_in_checkpoint(c, step);
    ASSERT_EQ(ranks.size(), 2U);
    const double fast = pace(ranks[0]), slow = pace(ranks[1]);
    EXPECT_NEAR(slow / fast, 4, 0.5);
    EXPECT_NEAR(static_cast<double>(last_shares(c).slow), kMicroBatches / 5.0, 2);
  }
};

TEST_F(UnequalRun, ASlowRankHasTheShareOfItsSpeedAndTheBitsAreThoseOfOneProcess) {
  const Config alone = unequal("alone"), c = unequal("run");
  train_here(alone);
  expect_runs_unequally(c);
  expect_same_bits(parameters_of(c), parameters_of(alone));
  expect_share_of_its_speed(c, 10);

  expect_runs_unequally(c, {"--resume", "9"});
  expect_same_bits(parameters_of(c), parameters_of(alone));
  expect_share_of_its_speed(c, 10);
  EXPECT_EQ(last_shares(c).step, 10) << "a resumed run begins with the speeds of the checkpoint";
}

/// Its plan depends on the memory that it may take.
TEST_F(UnequalRun, EachRankHasMicroBatchesOfItsOwnPlan) {
  // Whole shares of the batch need tens of MiB more than two samples: a budget is that precise.
  Config alone = small("alone");
  alone.model.layers = 4;
  alone.model.width = 128;
  alone.memory.recompute = Recompute::none;
  alone.batch.tokens = 256 * *alone.model.context;
  train_here(alone);
  Config c = alone;
  c.run.out = (folder_ / "run").string();
  c.batch.micro.reset();
  const Words words = command(c), little = command(c, {"--memory.budget=" + budget_for(c, 2)});
  // By the clock a trial takes as long for any size, so that the largest that fits is the fastest.
  const std::vector<Fault> same_time{{.at = "plan:trial", .action = "clock:0.5", .count = 0}};
  for (const Program::Result& result : accrue::testing::run_ranks(folder_, 2, 2, [&](int rank) {
         return with_faults({{rank, same_time}}, rank, rank == 1 ? little : words);
       }))
    EXPECT_EQ(result.status, 0) << result.errors;
  const auto size = [&](std::size_t rank) {
    return ranks_in_checkpoint(c, 6)[rank]["micro_batch"].get<std::int64_t>();
  };
  const std::int64_t first = size(0), second = size(1);
  EXPECT_LT(second, first);
  EXPECT_TRUE(are_close(c, alone));

  expect_runs(c, 2, {"--resume", "3"});
  EXPECT_EQ(size(0), first);
  EXPECT_EQ(size(1), second) << "which does not measure anew";
  EXPECT_TRUE(are_close(c, alone));
}

}  // namespace
}  // namespace accrue::train
