#include <gtest/gtest.h>

#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using MixtureRanks = testing::DistributedRun;

TEST_F(MixtureRanks, DrawFromSourcesByTheirWeightsAsOneProcess) {
  Config alone = small("alone");
  alone.precision.accumulate = accum::Accumulation::fixed;
  std::ofstream(folder_ / "other.txt") << std::string(3000, 'a') << std::string(3000, 'b');
  alone.data.train.push_back((folder_ / "other.txt").string());
  alone.data.weights = {1, 2};
  expect_runs(alone, 1);
  Config two = alone;
  two.run.out = (folder_ / "two").string();
  expect_runs(two, 2);
  expect_same_bits(parameters_of(two), parameters_of(alone));
  const auto steps = steps_of(two), expected = steps_of(alone);
  ASSERT_EQ(steps.size(), expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i]["loss"], expected[i]["loss"]);

  Config other = alone;
  other.run.out = (folder_ / "other").string();
  other.data.weights = {2, 1};
  expect_runs(other, 2);
  EXPECT_NE(steps_of(other).back()["loss"], expected.back()["loss"]) << "weights are seen";
}

}  // namespace
}  // namespace accrue::train
