#include "train/watch/noisy_batch.h"

#include <gmock/gmock.h>

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

StepReport step(double low, double weight, std::int64_t micro_batches) {
  StepReport report{.weight = weight, .micro_batches = micro_batches};
  report.noise_scale_low = low;
  return report;
}

TEST(NoisyBatch, IsToldOnceUntilItIsOver) {
  NoisyBatch noisy;
  EXPECT_FALSE(noisy.observe(step(3 * 4096, 4096, 32)));
  const auto told = noisy.observe(step(4 * 4096, 4096, 32));
  ASSERT_TRUE(told);
  EXPECT_THAT(*told, HasSubstr("128 times"));
  EXPECT_FALSE(noisy.observe(step(9 * 4096, 4096, 32)));
  EXPECT_FALSE(noisy.observe(step(3 * 4096, 4096, 32))) << "it is better, and not yet over";
  EXPECT_FALSE(noisy.observe(step(1 * 4096, 4096, 32)));
  EXPECT_TRUE(noisy.observe(step(5 * 4096, 4096, 32)));
}

TEST(NoisyBatch, IsNoneWhereAMicroBatchHasSignal) {
  NoisyBatch noisy;
  EXPECT_FALSE(noisy.observe(step(8 * 4096, 4096, 7))) << "56 times";
  EXPECT_TRUE(noisy.observe(step(8 * 4096, 4096, 8)));
}

TEST(NoisyBatch, IsNoneWhereNothingWasMeasured) {
  NoisyBatch noisy;
  EXPECT_FALSE(noisy.observe({.weight = 4, .micro_batches = 100}));
  EXPECT_FALSE(noisy.observe(step(1e9, 0, 100)));
}

}  // namespace
}  // namespace accrue::train
