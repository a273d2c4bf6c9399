#include "train/watch/run_watch.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

/// A step without any problem.
StepReport usual_step(std::int64_t step) {
  StepReport report{.step = step, .loss = 3, .grad_norm = 1, .lr = 1e-3, .seconds = 1};
  report.data_seconds = 0;
  report.peak_bytes = 900;
  report.memory = MemoryByKind{.parameters = 100, .activations = 800};
  return report;
}

TEST(RunWatch, TellsEachTroubleWithItsStep) {
  RunWatch watch(batch::Sampler(10, batch::Order::sequential, 0), InputKind::stream);
  std::vector<Event> told;
  for (std::int64_t step = 1; step <= 60; ++step) {
    StepReport report = usual_step(step);
    if (step == 25) report.loss = 9;
    if (step == 30) report.loss.reset();
    if (step == 32) report.peak_bytes = 995;
    if (step >= 35) report.data_seconds = 0.5;
    if (const auto spike = watch.see_loss(report, {0, 4})) told.push_back(*spike);
    for (const Event& event : watch.see_machine(report, 1000)) told.push_back(event);
  }
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].name, "loss_spike");
  EXPECT_EQ(told[0].step, 25);
  EXPECT_EQ(told[1].name, "memory_near_budget");
  EXPECT_EQ(told[1].step, 32);
  EXPECT_EQ(told[2].name, "slow_input");
  EXPECT_EQ(told[2].step, 38) << "after four of twenty steps that wait by half";
}

}  // namespace
}  // namespace accrue::train
