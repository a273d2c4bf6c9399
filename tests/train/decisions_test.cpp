#include <gtest/gtest.h>

#include "accrue/core/error.h"
#include "accrue/models/resnet.h"
#include "accrue/train/benchmark.h"
#include "cadence.h"
#include "cut_place.h"
#include "gemm_ceiling.h"
#include "micro_batch_size.h"
#include "resume.h"

namespace accrue::train {
namespace {

TEST(DecideMicroBatch, TakesTheLargestPowerOfTwoInAQuarterOfTheMemory) {
  struct Case {
    std::int64_t bytes_per_sample, available, window, expected;
  };
  for (const Case& c : {Case{100, 4'000, 64, 8}, Case{100, 6'300, 64, 8}, Case{100, 6'400, 64, 16},
                        Case{100, 1'000'000, 64, 64}, Case{100, 1'000'000, 63, 63},
                        Case{1'000'000, 1'000, 64, 1}, Case{0, 1'000, 6, 6}}) {
    const MicroDecision decision = decide_micro_batch({c.bytes_per_sample, c.available, c.window});
    EXPECT_EQ(decision.samples, c.expected) << decision.reason;
  }
}

TEST(Cadence, CountsStepsOrConvertsToThem) {
  const Horizon horizon{.total_steps = 200, .tokens_per_step = 100, .steps_per_epoch = 50};
  const Cadence every_ten({10, Duration::Unit::steps}, horizon, "x");
  EXPECT_FALSE(every_ten.due(9));
  EXPECT_TRUE(every_ten.due(20));
  const Cadence quarter({25, Duration::Unit::percent}, horizon, "x");
  EXPECT_TRUE(quarter.due(50));
  EXPECT_FALSE(quarter.due(51));
  const Cadence hourly({3600, Duration::Unit::seconds}, horizon, "x");
  EXPECT_FALSE(hourly.due(10));
}

TEST(GemmShapes, CountTwelveWidthSquaredPerLayerSixTimesPerToken) {
  const ModelConfig model{.layers = 3, .heads = 2, .width = 8, .context = 16, .vocab = 50};
  double flops = 0;
  for (const GemmShape& shape : gemm_shapes(model, 10)) flops += shape.flops();
  EXPECT_DOUBLE_EQ(flops, 10 * 6.0 * (3 * 12 * 8 * 8 + 50 * 8));
}

TEST(CutPlace, IsAFileWhereTheWindowsCutsTakeMoreThanAQuarterOfTheMemory) {
  const CutPlace memory =
      decide_cut_place({.bytes_per_sample = 10, .window_samples = 25, .available_bytes = 1000});
  EXPECT_FALSE(memory.in_file);
  EXPECT_NE(memory.reason.find("in memory"), std::string::npos) << memory.reason;
  const CutPlace file =
      decide_cut_place({.bytes_per_sample = 10, .window_samples = 26, .available_bytes = 1000});
  EXPECT_TRUE(file.in_file);
  EXPECT_NE(file.reason.find("mapped file"), std::string::npos) << file.reason;
}

TEST(CutPlace, CountsActivationsAndGradientsAtTheCuts) {
  models::ResNet model({.layers = 8, .width = 4, .classes = 3, .image = {1, 8, 8}});
  batch::MicroBatch one{
      .inputs = at::zeros({1, 1, 8, 8}), .targets = at::zeros({1}, at::kLong), .sample_ids = {0}};
  // conv1; then per block its first convolution with the block's input, and its second with the
  // shortcut: 4 channels of 8 x 8, 8 of 4 x 4, 16 of 2 x 2.
  const std::int64_t first = 4 * 64, second = 8 * 16, third = 16 * 4;
  const std::int64_t floats =
      first + 4 * first + (second + first) + 2 * second + (third + second) + 2 * third;
  EXPECT_EQ(cut_bytes_per_sample(model, one), 2 * 4 * floats);
}

TEST(CheckRoom, RefusesADiskThatCannotHoldTheCheckpoints) {
  EXPECT_EQ(checkpoint_room({.keep = 2, .keep_best = true}, 50, 100, 200), 4 * 300);
  EXPECT_EQ(checkpoint_room({.keep = 1000, .keep_best = false}, 2, 100, 200), 3 * 300);
  EXPECT_NO_THROW(check_room(1200, 1200, "here"));
  try {
    check_room(1200, 1199, "here");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_EQ(error.operation(), "run directory here");
  }
  EXPECT_GT(free_bytes_at("/"), 0);
}

TEST(SpreadOf, IsMinMedianMax) {
  const Spread odd = spread_of({3, 1, 2});
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
}

}  // namespace
}  // namespace accrue::train
