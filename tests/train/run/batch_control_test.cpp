#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Recorder;
using testing::SignalAfter;
using testing::TinyRun;

class ChangingBatch : public TinyRun {
 protected:
  static std::shared_ptr<Recorder> run(const Config& config, const RunOptions& options = {}) {
    Trainer trainer(config);
    const auto recorder = std::make_shared<Recorder>();
    trainer.add_observer(recorder);
    trainer.run(options);
    return recorder;
  }
  template <typename Value>
  static std::vector<Value> each(const Recorder& recorder, const Value StepReport::*member) {
    std::vector<Value> values;
    for (const StepReport& step : recorder.steps) values.push_back(step.*member);
    return values;
  }
  static std::vector<double> rates(const Recorder& recorder) {
    std::vector<double> values;
    for (const StepReport& step : recorder.steps) values.push_back(step.lr.value_or(-1));
    return values;
  }

  Config four_then_eight(const std::string& out) const {
    Config c = config(out);
    c.run.steps = 12;
    c.batch.tokens.reset();
    c.batch.samples = 8;
    c.batch.schedule_unit = BatchUnit::samples;
    c.batch.schedule = {{.at = {0}, .size = 8}, {.at = {8}, .size = 16}};
    return c;
  }

  /// Micro-batches of 2, so that noise is measured. At so low a rate the gradient hardly moves, and
  /// a batch of 32 samples is far above its noise scale, which makes it smaller.
  Config by_noise(const std::string& out) const {
    Config c = config(out);
    c.run.steps = 60;
    c.optim.lr = 1e-5;
    c.batch.tokens = 32 * 16;
    c.adapt.min = 4 * 16;
    c.adapt.batch = adapt::BatchRule::noise_scale;
    c.adapt.lr_rule = adapt::RateRule::sqrt;
    c.run.checkpoint_every = {1000, Duration::Unit::steps};
    return c;
  }
};

/// `at` counts completed steps: the ninth line is the first with the larger batch.
TEST_F(ChangingBatch, FollowsItsScheduleFromTheStepThatItNames) {
  const auto recorder = run(four_then_eight("run"));
  EXPECT_THAT(each(*recorder, &StepReport::micro_batches),
              ElementsAre(4, 4, 4, 4, 4, 4, 4, 4, 8, 8, 8, 8));
  EXPECT_EQ(recorder->steps.back().samples, 8 * 8 + 4 * 16);
}

TEST_F(ChangingBatch, IsEvaluatedByWhatWasLearnedFromRatherThanBySteps) {
  const std::int64_t first_half = 8 * 8 * 16;  // tokens of eight batches of 8 samples
  Config c = four_then_eight("run");
  c.run.keep_best = false;
  const auto evaluated_after = [&](const Duration& every) {
    c.run.eval_every = every;
    std::vector<std::int64_t> steps;
    const auto recorder = run(c);
    for (const Evaluation& evaluation : recorder->evaluations) steps.push_back(evaluation.step);
    return steps;
  };
  EXPECT_THAT(evaluated_after({first_half / 2., Duration::Unit::tokens}),
              ElementsAre(4, 8, 10, 12));
  c.run.out += "_in_steps";
  EXPECT_THAT(evaluated_after({25, Duration::Unit::percent}), ElementsAre(3, 6, 9, 12));
}

/// The cosine counts the learned tokens, so it continues smoothly at the larger batch.
TEST_F(ChangingBatch, DoesNotMakeTheLearningRateJump) {
  const Config c = four_then_eight("run");
  const std::vector<double> all = rates(*run(c));
  const double all_samples = 8 * 8 + 4 * 16;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double begins =
        i < 8 ? 8. * static_cast<double>(i) : 64 + 16. * static_cast<double>(i - 8);
    const double expected =
        c.optim.lr * (1 + std::cos(std::numbers::pi * begins / all_samples)) / 2;
    EXPECT_NEAR(all[i], expected, 1e-12) << i;
  }
}

TEST_F(ChangingBatch, IsResumedToTheBitBeforeAtAndBehindAChange) {
  Config straight = four_then_eight("straight");
  straight.batch.schedule = {};
  straight.batch.samples = 12;
  straight.batch.ramp_from = 4;
  straight.batch.ramp_over = Duration{8, Duration::Unit::steps};
  straight.optim.schedule.warmup = {2, Duration::Unit::steps};
  run(straight);
  for (const int micro_batches : {3, 17, 45}) {
    Config broken = straight;
    broken.run.out = (folder_ / ("broken" + std::to_string(micro_batches))).string();
    Trainer first(broken);
    first.add_observer(std::make_shared<SignalAfter>(micro_batches, SIGINT));
    EXPECT_TRUE(first.run().interrupted);
    run(broken, {.resume = true});
    expect_same_bits(parameters_of(broken), parameters_of(straight));
  }
}

TEST_F(ChangingBatch, OfARunInTokensEndsWhereTheTokensDo) {
  Config c = four_then_eight("run");
  c.run.steps.reset();
  c.run.tokens = (8 * 8 + 3 * 16) * 16;
  const auto recorder = run(c);
  EXPECT_EQ(recorder->steps.size(), 11);
  EXPECT_EQ(recorder->steps.back().tokens, *c.run.tokens);
}

TEST_F(ChangingBatch, ThatFollowsTheNoiseIsDecidedTheSameAfterAResume) {
  const Config straight = by_noise("straight");
  const auto whole = run(straight);
  const std::vector<double> all_rates = rates(*whole);
  ASSERT_THAT(each(*whole, &StepReport::micro_batches), Contains(::testing::Lt(16)))
      << "the batch has changed, so there is a decision to repeat";
  for (const int micro_batches : {131, 420}) {
    Config broken = straight;
    broken.run.out = (folder_ / ("broken" + std::to_string(micro_batches))).string();
    Trainer first(broken);
    first.add_observer(std::make_shared<SignalAfter>(micro_batches, SIGINT));
    ASSERT_TRUE(first.run().interrupted);
    const auto rest = run(broken, {.resume = true});
    const std::vector<double> rates_of_rest = rates(*rest);
    ASSERT_LT(rates_of_rest.size(), all_rates.size());
    for (std::size_t i = 0; i < rates_of_rest.size(); ++i)
      EXPECT_EQ(rates_of_rest[i], all_rates[all_rates.size() - rates_of_rest.size() + i]) << i;
    expect_same_bits(parameters_of(broken), parameters_of(straight));
  }
}

TEST_F(ChangingBatch, ThatFollowsTheNoiseStaysWithinItsBoundsAndSaysWhy) {
  Config c = by_noise("run");
  c.adapt.min = 12 * 16;
  const auto recorder = run(c);
  for (const StepReport& step : recorder->steps) {
    const bool ends_epoch = step.epoch_seconds.has_value();  // and may be short
    EXPECT_TRUE(ends_epoch || *step.batch_samples >= 12) << step.step;
  }
  EXPECT_THAT(each(*recorder, &StepReport::batch_samples), Contains(12));
  std::string reasons;
  for (const Event& event : recorder->events)
    if (event.name == "batch") reasons += event.reason;
  EXPECT_THAT(reasons, ::testing::HasSubstr("noise scale"));
}

TEST_F(ChangingBatch, OfFixedPointSumsChangesInWholeMicroBatches) {
  Config c = by_noise("run");
  c.precision.accumulate = accum::Accumulation::fixed;
  const auto recorder = run(c);
  for (const StepReport& step : recorder->steps) EXPECT_EQ(step.micro_batch, 2);
  EXPECT_THAT(each(*recorder, &StepReport::micro_batches), Contains(::testing::Lt(16)));
}

TEST_F(ChangingBatch, OfSeesawTakesFewerStepsForTheSameTokens) {
  Config c = config("run");
  c.run.steps.reset();
  c.run.tokens = 64 * 4 * 16;
  c.batch.tokens = 4 * 16;
  c.adapt.batch = adapt::BatchRule::seesaw;
  c.adapt.max = 16 * 16;
  const auto recorder = run(c);
  EXPECT_LT(recorder->steps.size(), 48);
  EXPECT_EQ(recorder->steps.front().batch_samples, 4);
  EXPECT_THAT(each(*recorder, &StepReport::batch_samples), Contains(16));
  const std::vector<double> all = rates(*recorder);
  EXPECT_TRUE(std::is_sorted(all.rbegin(), all.rend()));
}

/// Noise needs several micro-batches, so occasionally one is run as two.
TEST_F(ChangingBatch, OfOneMicroBatchIsMeasuredInTwo) {
  Config c = by_noise("run");
  c.batch.micro.reset();
  c.memory.recompute = Recompute::none;
  c.run.steps = 40;
  const auto recorder = run(c);
  EXPECT_THAT(each(*recorder, &StepReport::micro_batches), Contains(2));
  EXPECT_TRUE(recorder->steps.back().gradient_variance);
}

/// For any multiple of the batch: nothing changes before the first measurement.
TEST_F(ChangingBatch, StaysAsStatedUntilItsNoiseIsKnown) {
  for (const std::int64_t samples : {10, 7, 12}) {
    Config c = by_noise("run" + std::to_string(samples));
    c.run.steps = 5;
    c.batch.micro = 4;
    c.batch.tokens = samples * 16;
    c.adapt.min.reset();
    for (const auto accumulate : {accum::Accumulation::fp32, accum::Accumulation::fixed}) {
      c.precision.accumulate = accumulate;
      c.run.out += "_";
      EXPECT_THAT(each(*run(c), &StepReport::batch_samples), Each(samples));
    }
  }
}

TEST_F(ChangingBatch, ThatGoesByTheRunsLengthIsNotLengthened) {
  Config c = four_then_eight("run");
  c.batch.schedule[1].at = {50, Duration::Unit::percent};
  run(c);
  c.run.steps = 20;
  EXPECT_THROW(run(c, {.resume = true}), Error);
  Config by_steps = four_then_eight("by_steps");
  run(by_steps);
  by_steps.run.steps = 14;
  EXPECT_EQ(run(by_steps, {.resume = true})->steps.back().batch_samples, 16);
}

TEST_F(ChangingBatch, IsRefusedWhereItIsNoMultipleOfTheContext) {
  Config c = config();
  c.batch.tokens = 64;
  c.batch.schedule_unit = BatchUnit::tokens;
  c.batch.schedule = {{.at = {3}, .size = 40}};
  EXPECT_THROW(Trainer{c}.run(), Error);
}

}  // namespace
}  // namespace accrue::train
