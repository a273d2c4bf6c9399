// The rates of a run compared with optim.schedule.min_lr, which is absolute.
#include <gmock/gmock.h>

#include <cmath>

#include "support/errors.h"
#include "train/recorder.h"
#include "train/tiny_run.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using ::testing::HasSubstr;
using testing::Recorder;

class RateChecks : public testing::TinyRun {
 protected:
  Config with_floor(double floor) const {
    Config c = config();
    c.optim.schedule.min_lr = floor;
    return c;
  }
  static std::string refusal(const Config& c) {
    return usage_message([&] { open_workload(c); });
  }
};

/// 112 tokens instead of 11,200 make 1e-2 a rate of 1e-4.
TEST_F(RateChecks, NameTheKeyThatScalesThePeakBelowTheFloor) {
  Config c = with_floor(1e-3);
  c.optim.scale_lr = optim::ScaleRule::linear;
  c.optim.base_batch = 11'200;
  EXPECT_THAT(refusal(c), HasSubstr("optim.scale_lr with this batch: expected a rate of at least "
                                    "optim.schedule.min_lr (0.001)"));
  EXPECT_THAT(refusal(c), HasSubstr("received 0.0001"));
  EXPECT_THAT(usage_message([&] { Trainer(c).preview({}); }), HasSubstr("optim.scale_lr"));
  c.optim.schedule.min_lr = 1e-4;
  EXPECT_NO_THROW(open_workload(c));
  c.optim.schedule.min_lr = 1e-3;
  c.optim.scale_lr = optim::ScaleRule::sqrt;
  EXPECT_NO_THROW(open_workload(c)) << "to 1e-3 alone";
}

/// The steps of a warm-up are only known when the data and the plan are.
TEST_F(RateChecks, TakeAWarmUpInAnyUnit) {
  for (const Duration::Unit unit :
       {Duration::Unit::tokens, Duration::Unit::epochs, Duration::Unit::percent}) {
    Config c = with_floor(1e-3);
    c.optim.schedule.warmup = {2, unit};
    EXPECT_NO_THROW(open_workload(c)) << static_cast<int>(unit);
    c.optim.lr = 1e-4;
    c.optim.scale_lr = optim::ScaleRule::linear;
    c.optim.base_batch = 112;
    EXPECT_THAT(refusal(c), HasSubstr("received 0.0001")) << static_cast<int>(unit);
  }
}

TEST_F(RateChecks, NameThePatternWithARateBelowTheFloor) {
  Config c = with_floor(1e-3);
  c.optim.rates = {{.match = "wte", .lr = 1e-4}};
  EXPECT_THAT(refusal(c), HasSubstr("optim.rates, \"wte\": expected a rate of at least"));
  c.optim.rates.front().lr = 1e-3;
  EXPECT_NO_THROW(open_workload(c));
  c.optim.rates.front().lr = 1e-4;
  c.optim.schedule.kind = optim::ScheduleKind::constant;
  EXPECT_NO_THROW(open_workload(c)) << "a rate that does not fall has no floor";
}

TEST_F(RateChecks, NameTheKeyWithMoreThanParametersHold) {
  Config c = config();
  c.optim.lr = 1e39;
  EXPECT_THAT(refusal(c), HasSubstr("optim.lr: expected a rate that parameters in fp32 hold"));
  c.precision.compute = models::Compute::fp64;
  EXPECT_NO_THROW(open_workload(c));
  c.precision.compute = models::Compute::fp32;
  c.optim.lr = 1e38;
  EXPECT_NO_THROW(open_workload(c));
  c.optim.rates = {{.match = "wte", .lr = 1e39}};
  EXPECT_THAT(refusal(c), HasSubstr("optim.rates, \"wte\": expected a rate that"));
  c.optim.rates.clear();
  c.optim.scale_lr = optim::ScaleRule::linear;
  c.optim.base_batch = 7;  // 16 times the rate
  EXPECT_THAT(refusal(c), HasSubstr("optim.scale_lr with this batch: expected a rate that"));
}

/// Half a cosine from each group's own peak to the same floor.
TEST_F(RateChecks, GroupsOfARunFallToOneFloor) {
  Config c = with_floor(1e-3);
  c.optim.schedule.warmup = {1, Duration::Unit::steps};
  c.optim.rates = {{.match = "wte", .lr = 4e-3}};
  const auto recorder = std::make_shared<Recorder>();
  Trainer trainer(c);
  trainer.add_observer(recorder);
  trainer.run();
  ASSERT_EQ(recorder->steps.size(), 6U);
  for (const StepReport& step : recorder->steps) {
    const double way =
        (1 + std::cos(3.141592653589793 * (static_cast<double>(step.step) - 2) / 5)) / 2;
    const double expected = step.step == 1 ? 4e-3 : 1e-3 + 3e-3 * way;
    EXPECT_NEAR(step.lrs.at("decayed:wte"), expected, 1e-12) << step.step;
    EXPECT_EQ(step.lrs.at("decayed"), *step.lr);
    EXPECT_GT(step.lrs.at("decayed:wte"), 1e-3);
  }
  EXPECT_GT(
      std::abs(recorder->steps.back().lrs.at("decayed:wte") - 0.4 * *recorder->steps.back().lr),
      1e-4)
      << "a part of the schedule's rate would be seen";
}

}  // namespace
}  // namespace accrue::train
