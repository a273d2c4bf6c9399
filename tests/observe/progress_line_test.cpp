#include "observe/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "accrue/core/units.h"

namespace accrue::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A line on a string, whose time passes when the test says so.
class Wait {
 public:
  explicit Wait(bool redraws)
      : line(out, {.redraws = redraws,
                   .clock = [this] { return static_cast<double>(tenths) / 10; },
                   .size = [this] { return TerminalSize{.columns = columns, .rows = 24}; }}) {}

  /// Passes so much time, in which the line is asked ten times a second.
  void pass(int tenths_more) {
    for (; tenths_more > 0; --tenths_more) {
      ++tenths;
      line.tick();
    }
  }
  std::string taken() {
    std::string text = out.str();
    out.str("");
    return text;
  }
  std::vector<std::string> lines() {
    std::istringstream text(taken());
    std::vector<std::string> found;
    for (std::string one; std::getline(text, one);) found.push_back(one);
    return found;
  }

  int tenths = 1000;
  int columns = 80;
  std::ostringstream out;
  ProgressLine line;
  ShowProgress show = [this](const OperationProgress& progress) { line.take(progress); };
};

TEST(ProgressLine, AnOperationOfLessThanASecondPrintsNothing) {
  for (const bool redraws : {false, true}) {
    Wait wait(redraws);
    for (int i = 0; i < 5; ++i) {
      LongOperation loading(wait.show, "loading a");
      wait.pass(4);
      loading.count(1, 2);
      wait.pass(5);
    }
    wait.pass(50);
    EXPECT_EQ(wait.taken(), "") << redraws;
  }
}

TEST(ProgressLine, TheFirstLineComesAfterASecondAndTheNextAfterTen) {
  Wait wait(false);
  {
    const LongOperation loading(wait.show, "loading a");
    wait.pass(9);
    EXPECT_EQ(wait.taken(), "");
    wait.pass(1);
    EXPECT_EQ(wait.taken(), "loading a  1.0s\n");
    wait.pass(99);
    EXPECT_EQ(wait.taken(), "");
    wait.pass(1);
    EXPECT_EQ(wait.taken(), "loading a  11s\n");
  }
  EXPECT_EQ(wait.taken(), "") << "lines stay";
}

TEST(ProgressLine, OneLineIsRedrawnOnceASecondAndWipedAtTheEnd) {
  Wait wait(true);
  {
    const LongOperation loading(wait.show, "loading a");
    wait.pass(10);
    EXPECT_EQ(wait.taken(), "\r\x1b[Kloading a  1.0s");
    wait.pass(9);
    EXPECT_EQ(wait.taken(), "");
    wait.pass(1);
    EXPECT_EQ(wait.taken(), "\r\x1b[Kloading a  2.0s");
  }
  EXPECT_EQ(wait.taken(), "\r\x1b[K");
  wait.pass(50);
  EXPECT_EQ(wait.taken(), "");
}

TEST(ProgressLine, CountsAreThoseReportedAndTheRateIsThatSinceTheFirst) {
  Wait wait(false);
  constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
  const auto tell = counted_operation(wait.show, {.name = "tokenizing", .in_words = format_bytes});
  tell(10 * mebibyte, 100 * mebibyte);
  wait.pass(10);
  EXPECT_EQ(wait.taken(), "tokenizing  10.0 MiB of 100 MiB (10%)  0 B/s\n");
  for (int megabytes = 11; megabytes <= 60; ++megabytes) {
    tell(megabytes * mebibyte, 100 * mebibyte);
    wait.pass(2);
  }
  EXPECT_EQ(wait.taken(), "tokenizing  60.0 MiB of 100 MiB (60%)  4.55 MiB/s\n")
      << "50 MiB in 11 seconds";
  EXPECT_TRUE(wait.line.is_under_way());
  tell(100 * mebibyte, 100 * mebibyte);
  EXPECT_FALSE(wait.line.is_under_way());
}

TEST(ProgressLine, ALineThatIsAddedShowsAnotherPartAfterASecond) {
  Wait wait(false);
  LongOperation planning(wait.show, "planning");
  planning.begin_part("trying 1 sample");
  wait.pass(8);
  planning.begin_part("trying 2 samples");
  wait.pass(4);
  planning.begin_part("trying 4 samples");
  planning.begin_part("trying 8 samples");
  wait.pass(20);
  EXPECT_THAT(wait.lines(),
              ElementsAre("planning: trying 2 samples  1.0s", "planning: trying 8 samples  2.0s"));
}

TEST(ProgressLine, TheInnerOperationIsShownAndSilenceIsCountedFromTheOuterOne) {
  Wait wait(true);
  {
    const LongOperation reading(wait.show, "reading the data");
    wait.pass(8);
    {
      LongOperation tokenizing(wait.show, "tokenizing");
      tokenizing.count(1, 4);
      wait.pass(2);
      EXPECT_EQ(wait.taken(), "\r\x1b[Ktokenizing  1 of 4 (25%)");
    }
    EXPECT_EQ(wait.taken(), "") << "the outer operation goes on";
    wait.pass(10);
    EXPECT_EQ(wait.taken(), "\r\x1b[Kreading the data  2.0s");
  }
  EXPECT_EQ(wait.taken(), "\r\x1b[K");
}

TEST(ProgressLine, StagesAreShownAsTheyBeginAndAgainIfTheyTakeLong) {
  Wait wait(false);
  {
    const auto tell = staged_operation(wait.show);
    tell("trying 1 sample");
    EXPECT_EQ(wait.taken(), "trying 1 sample\n");
    wait.pass(95);
    tell("trying 2 samples");
    EXPECT_EQ(wait.taken(), "trying 2 samples\n");
    wait.pass(105);
    EXPECT_EQ(wait.taken(), "trying 2 samples  10s\n");
  }
  EXPECT_FALSE(wait.line.is_under_way());
}

TEST(ProgressLine, StagesStayAboveTheLineThatIsRedrawn) {
  Wait wait(true);
  {
    const auto tell = staged_operation(wait.show);
    tell("a");
    wait.pass(10);
    EXPECT_EQ(wait.taken(), "a\n\r\x1b[Ka  1.0s");
    tell("b");
    EXPECT_EQ(wait.taken(), "\r\x1b[Kb\n");
  }
  EXPECT_EQ(wait.taken(), "");
}

TEST(ProgressLine, IsNotWiderThanTheTerminalAndHasNoBytesThatMoveTheCursor) {
  Wait wait(true);
  wait.columns = 21;
  const LongOperation loading(wait.show, "loading \x1b[2J\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
  wait.pass(10);
  EXPECT_EQ(wait.taken(), "\r\x1b[Kloading \\u001b[2J\xc3\xa9\xc3\xa9\xc3\xa9");
  Wait added(false);
  const LongOperation again(added.show, "loading a\nb");
  added.pass(10);
  EXPECT_THAT(added.lines(), ElementsAre(HasSubstr("loading a\\u000ab")));
}

}  // namespace
}  // namespace accrue::observe
