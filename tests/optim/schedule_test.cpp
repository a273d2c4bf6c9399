#include "accrue/optim/schedule.h"

#include <gmock/gmock.h>

#include <cmath>

#include "windows.h"

namespace accrue::optim {
namespace {

using ::testing::HasSubstr;

TEST(ScheduleTest, Table) {
  constexpr auto constant = ScheduleKind::constant, linear = ScheduleKind::linear,
                 cosine = ScheduleKind::cosine;
  struct Case {
    LearningRate schedule;
    std::int64_t step;
    double expected;
  };
  // 21 steps, the first 10 of them warm-up: step 10 is the peak, step 15 half-way, step 20 the
  // last.
  const auto made = [](ScheduleKind kind) {
    return LearningRate{.kind = kind, .peak = 1, .min_lr = 0.2, .warmup = 10, .total_steps = 21};
  };
  for (const auto& [schedule, step, expected] : {
           Case{made(cosine), 0, 0.1},
           Case{made(cosine), 9, 1},
           Case{made(cosine), 10, 1},
           Case{made(cosine), 15, 0.6},
           Case{made(cosine), 12, 0.2 + 0.4 * (1 + std::cos(3.14159265358979 * 0.2))},
           Case{made(cosine), 20, 0.2},
           Case{made(cosine), 1000, 0.2},
           Case{made(linear), 4, 0.5},
           Case{made(linear), 15, 0.6},
           Case{made(linear), 12, 0.84},
           Case{made(linear), 20, 0.2},
           Case{made(linear), 21, 0.2},
           Case{made(constant), 9, 1},
           Case{made(constant), 1000, 1},
           // A constant rate warms up whatever the horizon is.
           Case{{.kind = constant, .peak = 1, .warmup = 4}, 2, 0.75},
           // A run shorter than its warm-up ends within it; one step behind it is the fall's end.
           Case{{.kind = cosine, .peak = 1, .warmup = 10, .total_steps = 5}, 7, 0.5},
           Case{{.kind = cosine, .peak = 1, .warmup = 4, .total_steps = 4}, 3, 1},
           Case{{.kind = linear, .peak = 1, .min_lr = 0.2, .warmup = 4, .total_steps = 5}, 3, 1},
           Case{{.kind = linear, .peak = 1, .min_lr = 0.2, .warmup = 4, .total_steps = 5}, 4, 0.2},
           Case{{.kind = cosine, .peak = 1, .min_lr = 0.2, .warmup = 4, .total_steps = 5}, 9, 0.2},
           Case{{.kind = cosine, .peak = 1, .warmup = 0, .total_steps = 1}, 0, 1},
           Case{{.kind = cosine, .peak = 1, .warmup = 1, .total_steps = 1}, 0, 1},
       })
    EXPECT_NEAR(schedule.at(step), expected, 1e-12)
        << "kind " << static_cast<int>(schedule.kind) << ", step " << step;
}

/// Steps that hold more and more of what a run counts: of those of 1, 2, 4, ... the rate at a place
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
  // Without scaling the batches are not looked at.
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
