#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "observe/progress_stage.h"

namespace accrue::observe {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Screen, ShowsWhatARedrawFromTheEndOfAWrappedLineLeavesBehind) {
  Screen screen;
  screen.write(std::string(70, 'x'));
  screen.width = 40;
  screen.write("\rshort\x1b[K");
  EXPECT_GT(screen.lines().back().size(), 40U);
}

const RunStart live_start{.total_steps = 200,
                          .parameters = 10,
                          .summary = "gpt2, 10",
                          .batch = "8 samples x 8 accumulation steps = 64 samples",
                          .batch_in_short = "8 x 8 = 64 samples"};

TEST(LiveProgress, IsRedrawnInPlaceBelowWhatScrolls) {
  Stage stage(ProgressStyle::live);
  Screen screen;
  const auto shown = [&] {
    screen.write(stage.taken());
    return screen.lines();
  };
  stage.sink.on_event({"plan", "micro-batches of 8", 0});
  stage.sink.on_start(live_start);
  EXPECT_THAT(shown(), ::testing::ElementsAre("plan: micro-batches of 8", "gpt2, 10", "",
                                              StartsWith("step    0/200  0%"),
                                              StartsWith("batch   8 samples x 8")));
  for (int i = 1; i <= 5; ++i) {
    stage.now += 1;
    stage.sink.on_step(step(i));
  }
  EXPECT_THAT(shown(), ::testing::ElementsAre(
                           "plan: micro-batches of 8", "gpt2, 10", "", StartsWith("step    5/200"),
                           StartsWith("loss    2.5000"), "speed   12.3 k tokens/s",
                           "memory  512 MiB", StartsWith("batch   8 samples x 8")));
  stage.sink.on_event({"budget", "less", 5});
  stage.sink.on_evaluation({.step = 5, .loss = 2, .weight = 1, .seconds = 1});
  EXPECT_THAT(shown(),
              ::testing::ElementsAre("plan: micro-batches of 8", "gpt2, 10",
                                     "step   5/200  budget: less", "step   5/200  eval loss 2.0000",
                                     "", _, HasSubstr("eval 2.0000"), _, _, _));
  stage.sink.on_end({.step = 5});
  screen.write(stage.taken() + "the result");
  EXPECT_EQ(screen.lines().size(), 11U) << "the view stays, and what follows comes below it";
  EXPECT_EQ(screen.lines().back(), "the result");
}

TEST(LiveProgress, IsDrawnAtMostTenTimesASecond) {
  Stage stage(ProgressStyle::live);
  stage.sink.on_start(live_start);
  stage.sink.on_step(step(1));
  stage.taken();
  int drawings = 0;
  for (int i = 2; i < 102; ++i) {
    stage.now += 0.01;
    stage.sink.on_micro_batch(1, 2);
    stage.sink.on_step(step(i));
    drawings += stage.taken().empty() ? 0 : 1;
  }
  EXPECT_GE(drawings, 8);
  EXPECT_LE(drawings, 10);
}

TEST(LiveProgress, LeavesNothingBehindWhenTheTerminalIsResized) {
  Stage stage(ProgressStyle::live);
  Screen screen;
  stage.sink.on_start(live_start);
  for (const int width : {200, 40, 120, 25, 60, 5, 80}) {
    stage.width = screen.width = width;
    stage.now += 1;
    stage.sink.on_step(step(150));
    screen.write(stage.taken());
    ASSERT_EQ(screen.lines().size(), 7U) << width;
    EXPECT_EQ(screen.lines().front(), "gpt2, 10");
    for (const std::string& line : screen.lines())
      EXPECT_LT(line.size(), static_cast<std::size_t>(std::max(width, 9))) << width;
  }
  stage.rows = 3;
  stage.now += 1;
  stage.sink.on_step(step(151));
  screen.write(stage.taken());
  EXPECT_EQ(screen.lines().size(), 3U);
}

TEST(LiveProgress, IsWipedWhereTheRunIsInterrupted) {
  Stage stage(ProgressStyle::live);
  Screen screen;
  stage.sink.on_start(live_start);
  stage.sink.on_step(step(150));
  screen.write(stage.taken() + "^C");  // the terminal shows the key
  EXPECT_EQ(screen.lines()[1], "^C") << "in the empty line";
  stage.sink.on_end({.step = 150, .interrupted = true});
  screen.write(stage.taken() + "the next message");
  EXPECT_THAT(screen.lines(),
              ::testing::ElementsAre("gpt2, 10", "step 150/200  interrupted", "the next message"));
}

TEST(LiveProgress, ShowsSharesOfRanksAndMicroBatchesOfLongSteps) {
  Stage stage(ProgressStyle::live);
  stage.sink.on_start(live_start);
  StepReport report = step(1);
  report.rank_samples = {40, 24};
  report.seconds = 5;
  stage.sink.on_step(report);
  stage.now += 3;
  stage.taken();
  stage.sink.on_micro_batch(5, 8);
  EXPECT_THAT(stage.taken(), AllOf(HasSubstr("ranks   40 + 24 samples"),
                                   HasSubstr("5 s a step  micro-batch 5/8")));
}

}  // namespace
}  // namespace accrue::observe
