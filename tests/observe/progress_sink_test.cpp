#include "observe/progress_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>
#include <vector>

namespace accrue::observe {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A sink on a string, with a clock and a width that the test moves.
class Stage {
 public:
  explicit Stage(ProgressStyle style)
      : sink(out, {.style = style,
                   .clock = [this] { return now; },
                   .size = [this] { return TerminalSize{.columns = width, .rows = rows}; }}) {}

  std::string taken() {
    std::string text = out.str();
    out.str("");
    return text;
  }

  double now = 100;
  int width = 100;
  int rows = 24;
  std::ostringstream out;
  ProgressSink sink;
};

StepReport bare_step(std::int64_t number) {
  StepReport report;
  report.step = number;
  return report;
}

StepReport step(std::int64_t number) {
  StepReport report = bare_step(number);
  report.loss = 2.5;
  report.tokens_per_second = 12'345;
  report.peak_bytes = std::int64_t{512} << 20;
  return report;
}

const RunStart start{.first_step = 0, .total_steps = 200, .parameters = 10, .summary = "gpt2, 10"};

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

/// The end of each draw: all that is below is cleared, and the cursor rests at the line's
/// beginning.
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

/// The bar's line of a run in step 101 of 200 that has all there is to tell.
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

/// A terminal that wraps its lines anew when it is resized, as most do.
class Screen {
 public:
  int width = 80;

  void write(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') {
        offset_ -= offset_ % columns();
      } else if (text[i] == '\n') {
        if (++line_ == lines_.size()) lines_.emplace_back();
        offset_ = 0;
      } else if (text[i] == '\x1b' && std::isdigit(text[i + 2]) != 0) {
        i = moved(text, i);
      } else if (text.compare(i, 3, "\x1b[J") == 0) {
        lines_.resize(line_ + 1);
        lines_[line_].resize(offset_);
        i += 2;
      } else if (text.compare(i, 3, "\x1b[K") == 0) {
        const std::size_t row_end = offset_ - offset_ % columns() + columns();
        if (row_end >= lines_[line_].size())
          lines_[line_].resize(std::min(offset_, lines_[line_].size()));
        for (std::size_t at = offset_; at < std::min(row_end, lines_[line_].size()); ++at)
          lines_[line_][at] = ' ';
        i += 2;
      } else {
        lines_[line_].resize(std::max(lines_[line_].size(), offset_ + 1), ' ');
        lines_[line_][offset_++] = text[i];
      }
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::size_t columns() const { return static_cast<std::size_t>(width); }
  /// Takes "\x1b[3A" (up) or "\x1b[3B" (down) at `i`; returns where it ends.
  std::size_t moved(const std::string& text, std::size_t i) {
    std::size_t digits = 0;
    const std::size_t lines = std::stoul(text.substr(i + 2), &digits);
    line_ = text[i + 2 + digits] == 'A' ? line_ - lines : line_ + lines;
    return i + 2 + digits;
  }
  std::vector<std::string> lines_{""};
  std::size_t line_ = 0, offset_ = 0;
};

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

TEST(Screen, ShowsWhatARedrawFromTheEndOfAWrappedLineLeavesBehind) {
  Screen screen;
  screen.write(std::string(70, 'x'));
  screen.width = 40;
  screen.write("\rshort\x1b[K");
  EXPECT_GT(screen.lines().back().size(), 40U);
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

// --- the live view

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
