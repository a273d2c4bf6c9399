#include "accrue/optim/schedule.h"

#include <gmock/gmock.h>

#include <cmath>
#include <initializer_list>

#include "windows.h"

namespace accrue::optim {
namespace {

using ::testing::HasSubstr;

constexpr auto constant = ScheduleKind::constant, linear = ScheduleKind::linear,
               cosine = ScheduleKind::cosine;

struct Rate {
  LearningRate schedule;
  std::int64_t step;
  double expected;
};

void expect_rates(std::initializer_list<Rate> rates) {
  for (const auto& [schedule, step, expected] : rates)
    EXPECT_NEAR(schedule.at(step), expected, 1e-12)
        << "kind " << static_cast<int>(schedule.kind) << ", step " << step;
}

/// 20 steps, the first 10 of them warm-up: step 10 is the peak, step 15 half-way, and step 20,
/// which is not taken, the end.
LearningRate of_20_steps(ScheduleKind kind) {
  return {.kind = kind, .peak = 1, .min_lr = 0.2, .warmup = 10, .total_steps = 20};
}

TEST(ScheduleTest, Table) {
  expect_rates({
      {of_20_steps(cosine), 0, 0.1},
      {of_20_steps(cosine), 9, 1},
      {of_20_steps(cosine), 10, 1},
      {of_20_steps(cosine), 15, 0.6},
      {of_20_steps(cosine), 12, 0.2 + 0.4 * (1 + std::cos(3.14159265358979 * 0.2))},
      {of_20_steps(cosine), 20, 0.2},
      {of_20_steps(cosine), 1000, 0.2},
      {of_20_steps(linear), 4, 0.5},
      {of_20_steps(linear), 15, 0.6},
      {of_20_steps(linear), 12, 0.84},
      {of_20_steps(linear), 19, 0.28},
      {of_20_steps(linear), 20, 0.2},
      {of_20_steps(linear), 21, 0.2},
      {of_20_steps(constant), 9, 1},
      {of_20_steps(constant), 1000, 1},
      // A constant rate warms up for any horizon.
      {{.kind = constant, .peak = 1, .warmup = 4}, 2, 0.75},
      // A run shorter than its warm-up ends within it; one step after the warm-up has the peak.
      {{.kind = cosine, .peak = 1, .warmup = 10, .total_steps = 5}, 7, 0.5},
      {{.kind = cosine, .peak = 1, .warmup = 4, .total_steps = 4}, 3, 1},
      {{.kind = cosine, .peak = 1, .warmup = 4, .total_steps = 4}, 4, 1},
      {{.kind = linear, .peak = 1, .min_lr = 0.2, .warmup = 4, .total_steps = 5}, 3, 1},
      {{.kind = linear, .peak = 1, .min_lr = 0.2, .warmup = 4, .total_steps = 5}, 4, 1},
      {{.kind = cosine, .peak = 1, .min_lr = 0.2, .warmup = 4, .total_steps = 5}, 9, 0.2},
      {{.kind = cosine, .peak = 1, .warmup = 0, .total_steps = 1}, 0, 1},
      {{.kind = cosine, .peak = 1, .warmup = 1, .total_steps = 1}, 0, 1},
      // In a run of two steps both change something.
      {{.kind = linear, .peak = 1, .total_steps = 2}, 1, 0.5},
      {{.kind = cosine, .peak = 1, .total_steps = 2}, 1, 0.5},
  });
}

/// A run that was started by such a version continues with it.
TEST(ScheduleTest, OfTheFirstVersionEndsInTheLastStep) {
  const auto of_first = [](LearningRate schedule) {
    schedule.version = ScheduleVersion::min_in_last_step;
    return schedule;
  };
  LearningRate of_21_steps = of_first(of_20_steps(linear));
  of_21_steps.total_steps = 21;
  expect_rates({
      {of_21_steps, 4, 0.5},
      {of_21_steps, 12, 0.84},
      {of_21_steps, 20, 0.2},
      {of_21_steps, 21, 0.2},
      {of_first({.kind = linear, .peak = 1, .min_lr = 0.2, .warmup = 4, .total_steps = 5}), 4, 0.2},
      {of_first({.kind = cosine, .peak = 1, .warmup = 0, .total_steps = 1}), 0, 1},
      {of_first({.kind = cosine, .peak = 1, .total_steps = 2}), 1, 0},
  });
}

/// The recursion of torch.optim.lr_scheduler.CosineAnnealingLR, which is a different formula.
TEST(ScheduleTest, IsPyTorchsCosineAnnealing) {
  constexpr double pi = 3.141592653589793;
  for (const std::int64_t steps : {2, 3, 10, 1000}) {
    const LearningRate schedule{.peak = 3e-4, .min_lr = 1e-5, .total_steps = steps};
    double rate = schedule.peak;
    for (std::int64_t step = 0; step < steps; ++step) {
      EXPECT_NEAR(schedule.at(step), rate, 1e-15) << step << " of " << steps;
      const double now = pi * static_cast<double>(step) / static_cast<double>(steps),
                   next = pi * static_cast<double>(step + 1) / static_cast<double>(steps);
      rate =
          schedule.min_lr + (1 + std::cos(next)) / (1 + std::cos(now)) * (rate - schedule.min_lr);
    }
    EXPECT_NEAR(schedule.at(steps), rate, 1e-15) << "the step behind the last";
    LearningRate other = schedule;
    other.version = ScheduleVersion::min_in_last_step;
    EXPECT_GT(std::abs(other.at(steps - 1) - schedule.at(steps - 1)), 1e-10);
  }
}

/// torch 2.13.0: SequentialLR of LinearLR(0.5, 1.0, total_iters=1) and CosineAnnealingLR(T_max=4)
/// from step 2 on.
TEST(ScheduleTest, BehindAWarmUpIsPyTorchs) {
  const LearningRate schedule{.peak = 1, .warmup = 2, .total_steps = 6};
  std::int64_t step = 0;
  for (const double rate : {0.5, 1.0, 1.0, 0.853553390593274, 0.5, 0.146446609406726, 0.0})
    EXPECT_NEAR(schedule.at(step++), rate, 1e-14) << step;
}

/// torch 2.13.0: CosineAnnealingLR(T_max=5, eta_min=0.2) over groups of 1.0 and 0.3.
TEST(ScheduleTest, GroupsFallToOneFloorAsPyTorchs) {
  const LearningRate schedule{.peak = 1, .min_lr = 0.2, .total_steps = 5};
  std::int64_t step = 0;
  for (const double rate :
       {0.3, 0.290450849718747, 0.265450849718747, 0.234549150281253, 0.209549150281253, 0.2}) {
    const RateFall fall{.peak = 1, .floor = 0.2, .left = schedule.left(step).value()};
    EXPECT_NEAR(fall.rate(0.3), rate, 1e-14) << step;
    EXPECT_NEAR(fall.rate(1), schedule.at(step), 1e-14) << step;
    ++step;
  }
  EXPECT_FALSE(of_20_steps(cosine).left(9)) << "a warm-up";
  EXPECT_FALSE(of_20_steps(constant).left(15));
}

/// Steps with a growing share of the run's length: with steps of 1, 2, 4, ... the rate at a place
/// is that of single steps at the same place.
TEST(ScheduleTest, OfStepsThatGrowIsTheSameAtTheSamePlace) {
  for (const auto kind : {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::constant}) {
    const LearningRate schedule{
        .kind = kind, .peak = 1, .min_lr = 0.1, .warmup = 7, .total_steps = 128};
    for (std::int64_t begin = 0, size = 1; begin < 128; begin += size, size *= 2) {
      const double at_once = schedule.at(begin, begin + size);
      if (begin >= schedule.warmup) {
        EXPECT_EQ(at_once, schedule.at(begin)) << begin;
      } else {
        EXPECT_EQ(at_once, schedule.at(std::min<std::int64_t>(7, begin + size) - 1)) << begin;
      }
    }
    EXPECT_EQ(schedule.at(500, 600), schedule.at(500));
  }
}

TEST(ScheduleTest, RefusesWhatMakesNoSense) {
  struct Case {
    LearningRate schedule;
    std::int64_t step;
    const char* expected;
  };
  for (const Case& c : {
           Case{{.peak = -1}, 0, "peak learning rate"},
           Case{{.peak = NAN}, 0, "peak learning rate"},
           Case{{.peak = 0.1, .min_lr = 0.2}, 0, "between 0 and the peak, received 0.2"},
           Case{{.warmup = -1}, 0, "warm-up of 0 steps or more, received -1"},
           Case{{.total_steps = 0}, 0, "at least one step, received 0"},
           Case{{}, -1, "step of 0 or more, received -1"},
       })
    EXPECT_THAT(testing::usage_message([&] { c.schedule.at(c.step); }), HasSubstr(c.expected));
}

TEST(ScaleLearningRateTest, Table) {
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, ScaleRule::none, 8192, 256), 0.1);
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, ScaleRule::linear, 8192, 256), 3.2);
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, ScaleRule::sqrt, 1024, 256), 0.2);
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, ScaleRule::linear, 64, 256), 0.025);
  // Without scaling the batches are ignored.
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, ScaleRule::none, 0, 0), 0.1);
}

TEST(ScaleLearningRateTest, RefusesBatchesThatAreNone) {
  const auto scaled = [](double lr, std::int64_t batch, std::int64_t base) {
    return testing::usage_message([&] { scale_learning_rate(lr, ScaleRule::sqrt, batch, base); });
  };
  EXPECT_THAT(scaled(0.1, 8, 0), HasSubstr("received 8 and 0"));
  EXPECT_THAT(scaled(0.1, -8, 4), HasSubstr("received -8 and 4"));
  EXPECT_THAT(scaled(INFINITY, 8, 4), HasSubstr("finite"));
}

}  // namespace
}  // namespace accrue::optim
