#include "train/run/step_meters.h"

#include <gtest/gtest.h>

#include "train/recorder.h"
#include "train/run/progress.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using testing::Recorder;
using StepMetersTest = testing::TinyRun;

TEST(MemoryByKindTest, AddsUpToThePeak) {
  memory::Usage now{.live = 700};
  now.live_by_tag[static_cast<std::size_t>(MemoryTag::parameters)] = 100;
  now.live_by_tag[static_cast<std::size_t>(MemoryTag::gradients)] = 90;
  now.live_by_tag[static_cast<std::size_t>(MemoryTag::optimizer)] = 200;
  now.live_by_tag[static_cast<std::size_t>(MemoryTag::packed)] = 10;
  now.live_by_tag[static_cast<std::size_t>(MemoryTag::working)] = 300;
  const MemoryByKind memory = memory_by_kind(now, {.live = 1000, .reserved = 1500});
  EXPECT_EQ(memory.parameters, 100);
  EXPECT_EQ(memory.gradients, 90);
  EXPECT_EQ(memory.optimizer, 200);
  EXPECT_EQ(memory.packed, 10);
  EXPECT_EQ(memory.activations, 600) << "as many as there were at the peak";
  EXPECT_EQ(memory.reserved, 1500);
}

TEST(ProgressTest, TellsTheTimeOfAnEpochWhoseBeginIsKnown) {
  Progress progress({.elapsed = 100, .epoch_began = 40});
  EXPECT_NEAR(*progress.end_epoch(), 60, 1);
  EXPECT_NEAR(*progress.end_epoch(), 0, 1) << "the next one began just now";
  Progress unknown({.elapsed = 100, .epoch_began = {}});
  EXPECT_FALSE(unknown.end_epoch());
  EXPECT_TRUE(unknown.end_epoch());
}

std::vector<StepReport> reports_of(const Config& config, bool resume = false) {
  const auto recorder = std::make_shared<Recorder>();
  Trainer trainer(config);
  trainer.add_observer(recorder);
  trainer.run({.resume = resume});
  return recorder->steps;
}

TEST_F(StepMetersTest, EveryStepHasItsTimesRatesAndBatch) {
  for (const StepReport& step : reports_of(config())) {
    SCOPED_TRACE(step.step);
    ASSERT_TRUE(step.micro_batch_seconds);
    EXPECT_GT(step.micro_batch_seconds->median, 0);
    EXPECT_GE(step.micro_batch_seconds->max, step.micro_batch_seconds->median);
    EXPECT_LE(step.micro_batch_seconds->max, *step.accumulation_seconds);
    ASSERT_TRUE(step.data_seconds);
    EXPECT_GE(*step.data_seconds, 0);
    EXPECT_LE(*step.data_seconds, step.seconds);
    EXPECT_EQ(step.batch_samples, 7);
    EXPECT_EQ(step.lrs,
              (std::map<std::string, double>{{"decayed", *step.lr}, {"undecayed", *step.lr}}));
    EXPECT_TRUE(step.losses.empty()) << "there is one loss";
  }
}

TEST_F(StepMetersTest, OneGroupHasTheRateThatIsToldAlready) {
  Config c = config();
  c.optim.decay = Decay::all;
  EXPECT_TRUE(reports_of(c).front().lrs.empty());
}

TEST_F(StepMetersTest, TheStepThatEndsAnEpochTellsItsTimeAlsoAcrossAResumption) {
  Config c = config();
  c.run.steps.reset();
  c.run.epochs = 2;
  c.batch.tokens = 112 * 16;
  const std::int64_t per_epoch = Trainer(c).plan().steps_per_epoch;
  ASSERT_GE(per_epoch, 3);
  const std::vector<StepReport> steps = reports_of(c);
  ASSERT_EQ(std::ssize(steps), 2 * per_epoch);
  double sum = 0;
  for (const StepReport& step : steps) {
    EXPECT_EQ(step.epoch_seconds.has_value(), step.step % per_epoch == 0) << step.step;
    sum += step.epoch_seconds.value_or(0);
  }
  EXPECT_DOUBLE_EQ(sum, steps.back().elapsed) << "what is between steps counts";

  Config stopped = c;
  stopped.run.out = (folder_ / "stopped").string();
  stopped.run.epochs.reset();
  stopped.run.steps = per_epoch - 1;
  const std::vector<StepReport> before = reports_of(stopped);
  EXPECT_FALSE(before.back().epoch_seconds);
  stopped.run.steps = per_epoch;
  const std::vector<StepReport> after = reports_of(stopped, /*resume=*/true);
  ASSERT_EQ(after.size(), 1U);
  ASSERT_TRUE(after[0].epoch_seconds);
  EXPECT_GT(*after[0].epoch_seconds, before.back().elapsed) << "the part before is counted";
  EXPECT_DOUBLE_EQ(*after[0].epoch_seconds, after[0].elapsed);
}

TEST_F(StepMetersTest, CheckpointsAreToldByTheStepAfterThem) {
  Config c = config();
  c.run.checkpoint_every = {2, Duration::Unit::steps};
  for (const StepReport& step : reports_of(c)) {
    const bool follows_one = step.step == 3 || step.step == 5;
    EXPECT_EQ(step.checkpoint_seconds.has_value(), follows_one) << step.step;
  }
}

}  // namespace
}  // namespace accrue::train
