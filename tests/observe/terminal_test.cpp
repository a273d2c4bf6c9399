#include "observe/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "support/skip.h"

namespace accrue::observe {
namespace {

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

class Terminal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (terminal_.descriptor() < 0)
      accrue::testing::not_possible_here("this machine has no pseudo-terminals");
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
  }
  void TearDown() override { ::close(file_); }

  const PseudoTerminal terminal_;
  const int file_ = ::open("/dev/null", O_WRONLY);
};

TEST_F(Terminal, AndTheSettingDecideTheStyle) {
  EXPECT_EQ(choose_progress_style(std::nullopt, terminal_.descriptor()), ProgressStyle::live);
  EXPECT_EQ(choose_progress_style(std::nullopt, file_), ProgressStyle::lines);
  EXPECT_EQ(choose_progress_style(ProgressStyle::lines, terminal_.descriptor()),
            ProgressStyle::lines);
  EXPECT_EQ(choose_progress_style(ProgressStyle::off, terminal_.descriptor()), ProgressStyle::off);
  EXPECT_EQ(choose_progress_style(ProgressStyle::bar, file_), ProgressStyle::bar);
  for (const char* const dumb : {"dumb", ""}) {
    ::setenv("TERM", dumb, 1);
    EXPECT_EQ(choose_progress_style(std::nullopt, terminal_.descriptor()), ProgressStyle::lines);
  }
}

TEST_F(Terminal, HasItsSizeOrTheUsual) {
  const winsize size{.ws_row = 20, .ws_col = 133, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(terminal_.descriptor(), TIOCSWINSZ, &size), 0);
  EXPECT_EQ(terminal_size(terminal_.descriptor()).columns, 133);
  EXPECT_EQ(terminal_size(terminal_.descriptor()).rows, 20);
  const winsize untold{};
  ASSERT_EQ(::ioctl(terminal_.descriptor(), TIOCSWINSZ, &untold), 0);
  for (const int descriptor : {terminal_.descriptor(), -1}) {
    EXPECT_EQ(terminal_size(descriptor).columns, 80);
    EXPECT_EQ(terminal_size(descriptor).rows, 24);
  }
}

TEST_F(Terminal, HasColoursUnlessSomebodySaysNo) {
  EXPECT_TRUE(takes_colours(terminal_.descriptor()));
  EXPECT_FALSE(takes_colours(file_));
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(takes_colours(terminal_.descriptor())) << "empty counts as not set (no-color.org)";
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(takes_colours(terminal_.descriptor()));
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(takes_colours(terminal_.descriptor()));
}

TEST(Locale, IsThatOfTheFirstVariableThatSaysAnything) {
  const auto set = [](const char* all, const char* ctype, const char* lang) {
    ::setenv("LC_ALL", all, 1);
    ::setenv("LC_CTYPE", ctype, 1);
    ::setenv("LANG", lang, 1);
    return locale_is_utf8();
  };
  EXPECT_TRUE(set("", "", "en_GB.UTF-8"));
  EXPECT_TRUE(set("", "", "C.utf8"));
  EXPECT_FALSE(set("", "", "C"));
  EXPECT_FALSE(set("C", "de_DE.UTF-8", "de_DE.UTF-8"));
  EXPECT_FALSE(set("", "de_DE.ISO-8859-1", "de_DE.UTF-8"));
  EXPECT_TRUE(set("C.UTF-8", "C", "C"));
  EXPECT_FALSE(set("", "", ""));
}

}  // namespace
}  // namespace accrue::observe
