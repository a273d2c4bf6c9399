// A run of several ranks that is repeated with the same and with another number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using testing::DistributedRun;
using ::testing::HasSubstr;
using testing::Words;

class RepeatedRun : public DistributedRun {
 protected:
  /// The whole batch is 2 micro-batches of each of 2 ranks.
  Config first() const {
    Config c = small("first");
    c.precision.accumulate = accum::Accumulation::fixed;
    c.batch = {};
    c.batch.micro_batches = 2;
    c.batch.micro = 3;
    return c;
  }

  /// The first rank's output when `world` ranks repeat run "first" into the folder `out`.
  std::string repeat(const std::string& out, int world) const {
    const Words words{ACCRUE_PROGRAM,
                      "train",
                      "--repeat",
                      (folder_ / "first").string(),
                      "--observe.progress=lines",
                      "--run.out=" + (folder_ / out).string()};
    std::string said;
    if (world == 1) {
      const auto result = accrue::testing::Program(folder_, words).wait();
      EXPECT_EQ(result.status, 0) << result.errors;
      return result.errors;
    }
    for (const auto& result :
         accrue::testing::run_ranks(folder_, world, world, [&](int) { return words; })) {
      EXPECT_EQ(result.status, 0) << result.errors;
      if (said.empty()) said = result.errors;
    }
    return said;
  }

  Config of(const std::string& out) const {
    Config c = first();
    c.run.out = (folder_ / out).string();
    return c;
  }
};

TEST_F(RepeatedRun, HasTheSameWholeBatchAndTheSameBitsByAnyNumberOfRanks) {
  expect_runs(first(), 2);
  const auto info = [&](const std::string& run) {
    return nlohmann::json::parse(read_file(folder_ / run / "run.json"));
  };
  EXPECT_EQ(info("first")["ranks"], 2);
  EXPECT_EQ(info("first")["plan"]["ranks"].size(), 2U);
  EXPECT_EQ(info("first")["config"]["batch"]["samples"], 12);

  EXPECT_THAT(repeat("second", 2), HasSubstr("the same bits are to be expected"));
  expect_same_bits(parameters_of(of("second")), parameters_of(first()));

  const std::string alone = repeat("alone", 1);
  EXPECT_THAT(alone, HasSubstr("ranks 2 then, 1 now: they share the same whole batch"));
  EXPECT_THAT(alone, HasSubstr("the same bits are to be expected"));
  EXPECT_EQ(info("alone")["config"]["batch"]["samples"], 12);
  EXPECT_EQ(info("alone")["plan"]["micro_batch"], 3);
  expect_same_bits(parameters_of(of("alone")), parameters_of(first()));
}

}  // namespace
}  // namespace accrue::train
