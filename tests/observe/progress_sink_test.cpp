#include "observe/progress_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "observe/progress_stage.h"

namespace accrue::observe {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

TEST(ProgressLines, TellTheFirstStepThenEveryFewSecondsOrTenth) {
  Stage stage(ProgressStyle::lines);
  stage.sink.on_start(start);
  EXPECT_EQ(stage.taken(), "gpt2, 10\n");
  stage.now += 2;
  stage.sink.on_step(step(1));
  EXPECT_EQ(stage.taken(), "step   1/200  loss 2.5000  12.3 k tokens/s  512 MiB  left 6m38s\n");
  stage.now += 2;
  stage.sink.on_step(step(2));
  EXPECT_EQ(stage.taken(), "");
  stage.now += 3;
  stage.sink.on_step(step(3));
  EXPECT_THAT(stage.taken(), HasSubstr("step   3/200"));
  stage.sink.on_step(step(20));
  EXPECT_THAT(stage.taken(), HasSubstr("step  20/200"));
  stage.sink.on_step(step(21));
  EXPECT_EQ(stage.taken(), "");
}

TEST(ProgressLines, CountSamplesWhereThereAreNoTokensAndTellTheAccuracy) {
  Stage stage(ProgressStyle::lines);
  stage.sink.on_start({.total_steps = 2, .parameters = 1, .summary = "s"});
  for (const std::int64_t i : {1, 2}) {
    StepReport report = step(i);
    report.tokens_per_second.reset();
    report.samples = 64 * i;
    report.seconds = 0.5;
    stage.sink.on_step(report);
  }
  stage.sink.on_evaluation({.step = 2, .loss = 2.25, .accuracy = 0.5, .weight = 1, .seconds = 1});
  EXPECT_THAT(stage.taken(), ::testing::AllOf(HasSubstr("  128 samples/s"),
                                              HasSubstr("eval loss 2.2500  accuracy 0.5000")));
}

TEST(ProgressLines, TellTheLastStepAndWhatHappensBesides) {
  Stage stage(ProgressStyle::lines);
  stage.sink.on_start({.first_step = 197, .total_steps = 200, .parameters = 1, .summary = "s"});
  stage.sink.on_step(step(198));
  stage.sink.on_step(step(199));
  stage.taken();
  stage.sink.on_evaluation({.step = 199, .loss = 2.25, .weight = 1, .seconds = 1});
  stage.sink.on_event({"resume", "two\nlines", 199});
  stage.sink.on_step(step(200));
  stage.sink.on_end({.step = 200, .interrupted = true});
  EXPECT_EQ(stage.taken(),
            "step 199/200  eval loss 2.2500\n"
            "step 199/200  resume: two lines\n"
            "step 200/200  loss 2.5000  eval 2.2500  12.3 k tokens/s  512 MiB\n"
            "step 200/200  interrupted\n");
}

TEST(ProgressSink, TellsDecisionsTakenBeforeTheStart) {
  for (const auto style : {ProgressStyle::lines, ProgressStyle::bar, ProgressStyle::live}) {
    Stage stage(style);
    stage.sink.on_event({"plan", "micro-batch of 4", 0});
    EXPECT_EQ(stage.taken(), "plan: micro-batch of 4\n");
  }
}

TEST(ProgressSink, BreaksLinesForATerminalAtWordsAndNotForALog) {
  const std::string reason = "micro-batches of 8 samples, nothing recomputed";
  for (const auto style : {ProgressStyle::lines, ProgressStyle::bar, ProgressStyle::live}) {
    Stage stage(style);
    stage.width = 30;
    stage.sink.on_event({"plan", reason, 0});
    EXPECT_EQ(stage.taken(), style == ProgressStyle::lines
                                 ? "plan: " + reason + "\n"
                                 : "plan: micro-batches of 8\n  samples, nothing recomputed\n");
  }
}

TEST(ProgressLines, ShowMicroBatchesWhileAStepTakesLong) {
  Stage stage(ProgressStyle::lines);
  stage.sink.on_start(start);
  stage.taken();
  stage.now += 4;
  stage.sink.on_micro_batch(1, 16);
  EXPECT_EQ(stage.taken(), "");
  stage.now += 2;
  stage.sink.on_micro_batch(2, 16);
  EXPECT_EQ(stage.taken(), "step   1/200  micro-batch 2/16\n");
  stage.now += 6;
  stage.sink.on_micro_batch(16, 16);
  EXPECT_EQ(stage.taken(), "");
  stage.sink.on_step(step(1));
  stage.taken();
  stage.now += 20;
  stage.sink.on_micro_batch(3, 16);
  EXPECT_EQ(stage.taken(), "");
  stage.now += 60;
  stage.sink.on_micro_batch(4, 16);
  EXPECT_EQ(stage.taken(), "step   2/200  micro-batch 4/16\n");
}

TEST(ProgressLines, LeaveOutWhatWasNotMeasured) {
  Stage stage(ProgressStyle::lines);
  stage.sink.on_start(start);
  stage.taken();
  stage.sink.on_step(bare_step(200));
  EXPECT_EQ(stage.taken(), "step 200/200\n");
}

/// The end of each draw: everything below is cleared, and the cursor stays at the start of the
/// line.
const std::string drawn = "\x1b[J\r";

TEST(ProgressBar, IsRedrawnInPlaceAndEndsWithALineBreak) {
  Stage stage(ProgressStyle::bar);
  stage.sink.on_start(start);
  EXPECT_EQ(stage.taken(), "gpt2, 10\n\r[..............] step   0/200" + drawn);
  stage.now += 1;
  stage.sink.on_micro_batch(4, 16);
  EXPECT_EQ(stage.taken(), "\r[..............] step   0/200  micro-batch 4/16" + drawn);
  stage.sink.on_micro_batch(5, 16);
  EXPECT_EQ(stage.taken(), "");
  stage.now += 1;
  stage.sink.on_step(step(100));
  EXPECT_EQ(
      stage.taken(),
      "\r[#######.......] step 100/200  loss 2.5000  12.3 k tokens/s  512 MiB  left 2.0s" + drawn);
  stage.sink.on_evaluation({.step = 100, .loss = 2, .weight = 1, .seconds = 1});
  EXPECT_THAT(stage.taken(), ::testing::StartsWith("\r\x1b[Jstep 100/200  eval loss 2.0000\n\r["));
  stage.sink.on_end({.step = 100, .interrupted = false});
  EXPECT_THAT(stage.taken(), ::testing::EndsWith("\x1b[J\r\n"));
}

/// The bar's line of a run in step 101 of 200 that has everything to show.
std::string line_at(int width) {
  Stage stage(ProgressStyle::bar);
  stage.width = width;
  stage.sink.on_start({.first_step = 0, .total_steps = 200, .parameters = 1, .summary = ""});
  stage.now += 300;
  stage.sink.on_step(step(100));
  stage.sink.on_evaluation({.step = 100, .loss = 2.25, .weight = 1, .seconds = 1});
  stage.now += 3;
  stage.taken();
  stage.sink.on_micro_batch(8, 16);
  const std::string line = stage.taken();
  EXPECT_THAT(line, ::testing::EndsWith(drawn));
  return line.substr(1, line.size() - 1 - drawn.size());
}

TEST(ProgressBar, LeavesOutWhatHasNoRoomTheLeastImportantFirst) {
  EXPECT_EQ(line_at(10), "step 100/");
  EXPECT_EQ(line_at(20), "step 100/200");
  EXPECT_EQ(line_at(30), "step 100/200  loss 2.5000");
  EXPECT_EQ(line_at(40), "step 100/200  loss 2.5000  left 5m00s");
  EXPECT_EQ(line_at(50), "[###...] step 100/200  loss 2.5000  left 5m00s");
  EXPECT_EQ(line_at(70), "[####.....] step 100/200  loss 2.5000  12.3 k tokens/s  left 5m00s");
  EXPECT_EQ(line_at(80), "[#####......] step 100/200  loss 2.5000  12.3 k tokens/s  left 5m00s");
  EXPECT_EQ(line_at(100),
            "[#######.......] step 100/200  loss 2.5000  12.3 k tokens/s  left 5m00s  "
            "micro-batch 8/16");
  EXPECT_EQ(line_at(110),
            "[########........] step 100/200  loss 2.5000  eval 2.2500  12.3 k tokens/s  "
            "left 5m00s  micro-batch 8/16");
  EXPECT_EQ(line_at(300),
            "[##############..............] step 100/200  loss 2.5000  eval 2.2500  "
            "12.3 k tokens/s  512 MiB  left 5m00s  micro-batch 8/16");
}

TEST(ProgressBar, DoesNotFlickerWithTheMicroBatchesOfShortSteps) {
  Stage stage(ProgressStyle::bar);
  stage.sink.on_start(start);
  stage.sink.on_step(step(1));
  stage.now += 1.5;
  stage.taken();
  stage.sink.on_micro_batch(8, 16);
  EXPECT_THAT(stage.taken(), ::testing::Not(HasSubstr("micro-batch")));
  stage.now += 1.5;
  stage.sink.on_micro_batch(9, 16);
  EXPECT_THAT(stage.taken(), HasSubstr("micro-batch 9/16"));
}

TEST(ProgressBar, NeverIsWiderThanTheTerminal) {
  for (int width = 1; width < 200; ++width)
    EXPECT_LE(static_cast<int>(line_at(width).size()), std::max(width - 1, 1)) << width;
}

TEST(ProgressBar, LeavesNothingBehindWhenTheTerminalIsResized) {
  Stage stage(ProgressStyle::bar);
  Screen screen;
  stage.sink.on_start(start);
  for (const int width : {200, 40, 120, 25, 60, 5, 80}) {
    stage.width = screen.width = width;
    stage.now += 1;
    stage.sink.on_step(step(150));
    screen.write(stage.taken());
    ASSERT_EQ(screen.lines().size(), 2U) << width;
    EXPECT_EQ(screen.lines().front(), "gpt2, 10");
    EXPECT_LT(screen.lines().back().size(), static_cast<std::size_t>(width));
  }
  stage.width = screen.width = 30;
  stage.sink.on_event({"budget", "less", 150});
  stage.sink.on_end({.step = 150});
  screen.write(stage.taken());
  EXPECT_THAT(screen.lines(),
              ::testing::ElementsAre("gpt2, 10", "step 150/200  budget: less", _, ""));
}

TEST(ProgressBar, IsWipedWhereTheRunIsInterrupted) {
  Stage stage(ProgressStyle::bar);
  Screen screen;
  stage.sink.on_start(start);
  stage.sink.on_step(step(150));
  screen.write(stage.taken());
  screen.write("^C");  // the terminal shows the key
  stage.now += 1;
  stage.sink.on_micro_batch(1, 2);
  screen.write(stage.taken());
  EXPECT_THAT(screen.lines().back(), ::testing::StartsWith("[#"));
  screen.write("^C");
  stage.sink.on_end({.step = 150, .interrupted = true});
  screen.write(stage.taken() + "the next message");
  EXPECT_THAT(screen.lines(),
              ::testing::ElementsAre("gpt2, 10", "step 150/200  interrupted", "the next message"));
}

TEST(ProgressOff, IsSilent) {
  Stage stage(ProgressStyle::off);
  stage.sink.on_start(start);
  stage.now += 100;
  stage.sink.on_micro_batch(1, 2);
  stage.sink.on_step(step(1));
  stage.sink.on_evaluation({.step = 1, .loss = 1, .weight = 1, .seconds = 1});
  stage.sink.on_event({"resume", "", 1});
  stage.sink.on_end({.step = 1, .interrupted = true});
  EXPECT_EQ(stage.taken(), "");
}

}  // namespace
}  // namespace accrue::observe
