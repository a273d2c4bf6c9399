#include "accrue/observe/progress_sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <sstream>

#include "accrue/core/error.h"

namespace accrue::observe {
namespace {

using ::testing::HasSubstr;

/// A sink on a string, with a clock and a width that the test moves.
class Stage {
 public:
  explicit Stage(ProgressStyle style)
      : sink(out,
             {.style = style, .clock = [this] { return now; }, .width = [this] { return width; }}) {
  }

  std::string taken() {
    std::string text = out.str();
    out.str("");
    return text;
  }

  double now = 100;
  int width = 100;
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
  for (const auto style : {ProgressStyle::lines, ProgressStyle::bar}) {
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

TEST(ProgressBar, IsRedrawnInPlaceAndEndsWithALineBreak) {
  Stage stage(ProgressStyle::bar);
  stage.sink.on_start(start);
  EXPECT_EQ(stage.taken(), "gpt2, 10\n\r[............................] step   0/200\x1b[K");
  stage.now += 1;
  stage.sink.on_micro_batch(4, 16);
  EXPECT_EQ(stage.taken(), "\r[............................] step   0/200  micro-batch 4/16\x1b[K");
  stage.sink.on_micro_batch(5, 16);
  EXPECT_EQ(stage.taken(), "");
  stage.now += 1;
  stage.sink.on_step(step(100));
  EXPECT_EQ(stage.taken(),
            "\r[##############..............] step 100/200  loss 2.5000  12.3 k tokens/s  512 MiB"
            "  left 2.0s\x1b[K");
  stage.sink.on_evaluation({.step = 100, .loss = 2, .weight = 1, .seconds = 1});
  EXPECT_THAT(stage.taken(), ::testing::StartsWith("\r\x1b[Kstep 100/200  eval loss 2.0000\n\r["));
  stage.sink.on_end({.step = 100, .interrupted = false});
  EXPECT_THAT(stage.taken(), ::testing::EndsWith("\x1b[K\n"));
}

TEST(ProgressBar, NeverIsWiderThanTheTerminal) {
  for (const int width : {1, 10, 40, 60, 80, 120, 300}) {
    Stage stage(ProgressStyle::bar);
    stage.width = width;
    stage.sink.on_start({.first_step = 0, .total_steps = 200, .parameters = 1, .summary = ""});
    stage.taken();
    stage.sink.on_step(step(7));
    std::string drawn = stage.taken();
    ASSERT_THAT(drawn, ::testing::StartsWith("\r"));
    ASSERT_THAT(drawn, ::testing::EndsWith("\x1b[K"));
    drawn = drawn.substr(1, drawn.size() - 4);
    EXPECT_LE(static_cast<int>(drawn.size()), std::max(width - 1, 1)) << drawn;
  }
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

/// The program's end of a new pseudo-terminal.
class PseudoTerminal {
 public:
  PseudoTerminal() : controller_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    ::grantpt(controller_);
    ::unlockpt(controller_);
    terminal_ = ::open(::ptsname(controller_), O_RDWR | O_NOCTTY);
  }
  ~PseudoTerminal() {
    ::close(terminal_);
    ::close(controller_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  int descriptor() const { return terminal_; }

 private:
  int controller_;
  int terminal_;
};

TEST(ChooseProgressStyle, FollowsTheSettingAndTheTerminal) {
  const PseudoTerminal terminal;
  if (terminal.descriptor() < 0) GTEST_SKIP() << "this machine has no pseudo-terminals";
  const int file = ::open("/dev/null", O_WRONLY);
  ::setenv("TERM", "xterm", 1);
  EXPECT_EQ(choose_progress_style("auto", terminal.descriptor()), ProgressStyle::bar);
  EXPECT_EQ(choose_progress_style("auto", file), ProgressStyle::lines);
  EXPECT_EQ(choose_progress_style("lines", terminal.descriptor()), ProgressStyle::lines);
  EXPECT_EQ(choose_progress_style("off", terminal.descriptor()), ProgressStyle::off);
  EXPECT_EQ(choose_progress_style("bar", file), ProgressStyle::bar);
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(choose_progress_style("auto", terminal.descriptor()), ProgressStyle::lines);
  EXPECT_THROW(choose_progress_style("loud", file), Error);
  ::close(file);
}

TEST(TerminalWidth, IsTheTerminalsOrTheUsual) {
  const PseudoTerminal terminal;
  if (terminal.descriptor() < 0) GTEST_SKIP() << "this machine has no pseudo-terminals";
  const winsize size{.ws_row = 20, .ws_col = 133, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(terminal.descriptor(), TIOCSWINSZ, &size), 0);
  EXPECT_EQ(terminal_width(terminal.descriptor()), 133);
  EXPECT_EQ(terminal_width(-1), 80);
}

}  // namespace
}  // namespace accrue::observe
