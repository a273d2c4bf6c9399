#include "train/workload/batch_changes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace accrue::train {
namespace {

constexpr SampleFacts of_text{.samples_per_epoch = 1000, .tokens_per_sample = 16};

Config batch_of(std::int64_t tokens) {
  Config config;
  config.run.tokens = 100'000;
  config.batch.tokens = tokens;
  return config;
}

/// The place after so many tokens, with windows of `window` tokens.
batch::WindowPlace behind(std::int64_t tokens, std::int64_t window = 160) {
  return {.index = tokens / window, .begin = tokens / 16, .tokens = tokens};
}

TEST(BatchChanges, AStageIsInForceFromItsPlaceOn) {
  Config config = batch_of(160);
  config.batch.schedule = {{.at = {0}, .size = 160}, {.at = {8}, .size = 320}};
  EXPECT_EQ(batch_at(config, of_text, {.index = 7}), 160);
  EXPECT_EQ(batch_at(config, of_text, {.index = 8}), 320);
  config.batch.schedule[1].at = {4000, Duration::Unit::tokens};
  EXPECT_EQ(batch_at(config, of_text, behind(3999)), 160);
  EXPECT_EQ(batch_at(config, of_text, behind(4000)), 320);
  config.batch.schedule[1].at = {0.5, Duration::Unit::epochs};
  EXPECT_EQ(batch_at(config, of_text, behind(499 * 16)), 160);
  EXPECT_EQ(batch_at(config, of_text, behind(500 * 16)), 320);
  config.batch.schedule[1].at = {25, Duration::Unit::percent};
  EXPECT_EQ(batch_at(config, of_text, behind(24'999)), 160);
  EXPECT_EQ(batch_at(config, of_text, behind(25'000)), 320);
}

TEST(BatchChanges, ALinearRampGoesByWholeSamples) {
  Config config = batch_of(320);
  config.batch.ramp_from = 160;
  config.batch.ramp_over = Duration{10'000, Duration::Unit::tokens};
  EXPECT_EQ(batch_at(config, of_text, behind(0)), 160);
  EXPECT_EQ(batch_at(config, of_text, behind(999)), 160);
  EXPECT_EQ(batch_at(config, of_text, behind(1000)), 176);
  EXPECT_EQ(batch_at(config, of_text, behind(5000)), 240);
  EXPECT_EQ(batch_at(config, of_text, behind(9999)), 304);
  EXPECT_EQ(batch_at(config, of_text, behind(10'000)), 320);
  EXPECT_EQ(batch_at(config, of_text, behind(90'000)), 320);
}

TEST(BatchChanges, TheLargestStatedBatchMayBeLargerThanAnEpoch) {
  Config config = batch_of(160);
  EXPECT_EQ(largest_stated_samples(config, of_text), 10);
  config.batch.schedule = {{.at = {8}, .size = 32'000}};
  EXPECT_EQ(largest_stated_samples(config, of_text), 2000);
  EXPECT_EQ(largest_stated_samples(config, {.samples_per_epoch = 1000}), std::nullopt);
}

TEST(BatchChanges, ADoublingRampTakesEqualPartsForItsSizes) {
  Config config = batch_of(1280);
  config.batch.ramp_from = 160;
  config.batch.ramp_over = Duration{9000, Duration::Unit::tokens};
  config.batch.ramp_by = RampShape::doubling;
  for (const auto& [tokens, size] : {std::pair{0, 160},
                                     {2999, 160},
                                     {3000, 320},
                                     {6000, 640},
                                     {8999, 640},
                                     {9000, 1280},
                                     {50'000, 1280}})
    EXPECT_EQ(batch_at(config, of_text, behind(tokens)), size) << tokens;
  EXPECT_EQ(batch_range(config).least, 160);
  EXPECT_EQ(batch_range(config).most, 1280);
}

/// At the place where the schedule would have halved the rate k times, the batch is 2^k times as
/// large and the rate 2^(-k/2) of its peak.
TEST(BatchChanges, SeesawDoublesWhereTheRateWouldBeHalved) {
  Config config = batch_of(160);
  config.adapt.batch = adapt::BatchRule::seesaw;
  config.adapt.max = 640;
  config.optim.lr = 0.01;
  config.optim.schedule.kind = optim::ScheduleKind::linear;
  const optim::LearningRate rate = rate_over_length(config, of_text);
  for (std::int64_t tokens = 0; tokens < 99'000; tokens += 1111) {
    const double left = rate.at(place_in_length(config, behind(tokens))) / 0.01;
    std::int64_t halvings = 0;
    while (left * std::exp2(halvings + 1) <= 1) ++halvings;
    const std::int64_t doublings = std::min<std::int64_t>(2, halvings);
    EXPECT_EQ(batch_at(config, of_text, behind(tokens)), 160 << doublings) << tokens;
    const double expected = std::exp2(-0.5 * static_cast<double>(doublings)) *
                            std::exp2(-static_cast<double>(halvings - doublings));
    EXPECT_NEAR(seesaw_at(config, of_text, behind(tokens)).rate_left.value_or(0), expected, 1e-12);
  }
}

TEST(BatchChanges, AWarmUpInStepsCountsStepsOfTheStatedBatch) {
  Config config = batch_of(160);
  config.optim.schedule.warmup = {10, Duration::Unit::steps};
  EXPECT_EQ(rate_over_length(config, of_text).warmup, 1600);
  config.optim.schedule.warmup = {5, Duration::Unit::percent};
  EXPECT_EQ(rate_over_length(config, of_text).warmup, 5000);
  config.run.tokens.reset();
  config.run.epochs = 2;
  EXPECT_EQ(rate_over_length(config, of_text).warmup, 100) << "in draws";
  config.run.epochs.reset();
  config.run.steps = 40;
  EXPECT_EQ(rate_over_length(config, of_text).warmup, 2);
}

}  // namespace
}  // namespace accrue::train
