// Ranks hide the same tokens as one process.
#include <gtest/gtest.h>

#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

class MaskedRanks : public testing::DistributedRun {
 protected:
  Config masked(const std::string& out) const {
    Config c = small(out);
    c.model.kind = ModelKind::bert;
    c.loss.kind = models::LossKind::mlm;
    c.precision.accumulate = accum::Accumulation::fixed;
    return c;
  }
};

TEST_F(MaskedRanks, EndAsOneProcessToTheBit) {
  const Config alone = masked("alone");
  expect_runs(alone, 1);
  const Config two = masked("two");
  expect_runs(two, 2);
  expect_same_bits(parameters_of(two), parameters_of(alone));
  const auto steps = steps_of(two), expected = steps_of(alone);
  ASSERT_EQ(steps.size(), expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i]["loss"], expected[i]["loss"]);
    EXPECT_EQ(steps[i]["weight"], expected[i]["weight"]);
  }
  EXPECT_TRUE(evaluates_alike(two, alone));

  Config other = masked("other");
  other.loss.mask_fraction = 0.16;
  expect_runs(other, 2);
  EXPECT_NE(steps_of(other).back()["loss"], expected.back()["loss"]) << "masks are seen";
}

TEST_F(MaskedRanks, AsStagesOfAPipelineEndAsOneProcessToTheBit) {
  const Config alone = masked("alone");
  expect_runs(alone, 1);
  Config stages = masked("stages");
  stages.dist.stages = 2;
  expect_runs(stages, 2);
  expect_same_bits(parameters_of(stages), parameters_of(alone));
  EXPECT_TRUE(evaluates_alike(stages, alone));
}

}  // namespace
}  // namespace accrue::train
