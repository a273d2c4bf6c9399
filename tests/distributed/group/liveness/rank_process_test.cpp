#include "distributed/group/liveness/rank_process.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::hours kForever{1};

/// A child that does `work` and waits for a signal.
class Child {
 public:
  explicit Child(void (*work)()) : number_(::fork()) {
    if (number_ != 0) return;
    work();
    while (true) ::pause();
  }
  ~Child() {
    if (status_) return;
    ::kill(number_, SIGKILL);
    wait(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Its status once it has ended, or stopped with WUNTRACED.
  int wait(int options) {
    int status = 0;
    EXPECT_EQ(::waitpid(number_, &status, options), number_);
    if (!WIFSTOPPED(status)) status_ = status;
    return status;
  }
  void signal(int number) const { ::kill(number_, number); }

  /// As the child would write it: its parent is on the same machine.
  RankProcess process(const std::string& start = "") const {
    std::istringstream own(RankProcess::own().text());
    std::string boot, names;
    own >> boot >> names;
    return RankProcess(boot + " " + names + " " + std::to_string(number_) + " " +
                       (start.empty() ? started() : start));
  }

 private:
  std::string started() const {
    std::ifstream file("/proc/" + std::to_string(number_) + "/stat");
    std::istringstream fields(std::string(std::istreambuf_iterator<char>(file), {}));
    const std::vector<std::string> all(std::istream_iterator<std::string>(fields), {});
    return all.at(21);  // field 22, as the name of this program has no blanks
  }

  pid_t number_;
  std::optional<int> status_;
};

void stop() { std::raise(SIGSTOP); }

TEST(RankProcess, OneThatStaysStoppedIsEnded) {
  Child child(stop);
  ASSERT_TRUE(WIFSTOPPED(child.wait(WUNTRACED)));
  EXPECT_TRUE(child.process().is_stopped());
  end_stopped({{child.process(), milliseconds(0)}});
  const int status = child.wait(0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_FALSE(child.process("1").is_stopped()) << "it has ended";
}

TEST(RankProcess, OneThatGoesOnIsNotEnded) {
  Child child(stop);
  ASSERT_TRUE(WIFSTOPPED(child.wait(WUNTRACED)));
  std::jthread waiting([&] { end_stopped({{child.process(), kForever}}); });
  child.signal(SIGCONT);
  waiting.join();
  EXPECT_FALSE(child.process().is_stopped());
  end_stopped({{child.process(), milliseconds(0)}});  // returns, and the child lives
  child.signal(SIGTERM);
  EXPECT_EQ(WTERMSIG(child.wait(0)), SIGTERM);
}

TEST(RankProcess, AnotherProcessWithItsNumberIsNotIt) {
  Child child(stop);
  ASSERT_TRUE(WIFSTOPPED(child.wait(WUNTRACED)));
  EXPECT_FALSE(child.process("12345").is_stopped());
  for (const char* text : {"", "1", "x y", "a b 0 1", "a b -1 1", "a b 99999999999999999999 1"})
    EXPECT_FALSE(RankProcess(text).is_stopped()) << text;
  EXPECT_FALSE(RankProcess::own().is_stopped());
  EXPECT_TRUE(child.process().is_stopped()) << "the control";
}

TEST(RankProcess, AnotherProgramIsLeftAlone) {
  Child child([] {
    const char* const words[] = {"sh", "-c", "kill -STOP $$", nullptr};
    ::execv("/bin/sh", const_cast<char* const*>(words));
  });
  ASSERT_TRUE(WIFSTOPPED(child.wait(WUNTRACED)));
  EXPECT_FALSE(child.process().is_stopped());
}

TEST(RankProcess, OneThatADebuggerHoldsIsLeftAlone) {
  Child child([] {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    stop();
  });
  ASSERT_TRUE(WIFSTOPPED(child.wait(WUNTRACED)));
  EXPECT_FALSE(child.process().is_stopped());
}

}  // namespace
}  // namespace accrue::distributed
