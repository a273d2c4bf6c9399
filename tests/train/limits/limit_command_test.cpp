#include "train/limits/limit_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/run_program.h"

namespace accrue::train {
namespace {

using accrue::testing::wait_until;
using ::testing::HasSubstr;

Limit above(const std::string& command) { return {.command = command, .above = 1}; }

/// The result of a command while the clock stands still.
LimitReading run(LimitCommand& command) {
  std::optional<LimitReading> reading;
  command.start(0);
  wait_until([&] { return (reading = command.poll(0)).has_value(); });
  return *reading;
}
LimitReading run(const Limit& limit) {
  LimitCommand command(limit);
  return run(command);
}

/// The numbers of processes that a command writes into a separate file.
class WrittenProcesses : public ::testing::Test {
 protected:
  ~WrittenProcesses() override { std::filesystem::remove(file_); }

  /// Waits until `count` of them are written.
  std::vector<pid_t> wait_for(std::size_t count) const {
    std::vector<pid_t> processes;
    wait_until([&] {
      processes.clear();
      std::ifstream lines(file_);
      for (pid_t process = 0; lines >> process;) processes.push_back(process);
      return processes.size() == count && !lines.bad();
    });
    return processes;
  }
  /// Whether it is gone, or dead and not yet reaped.
  static bool is_gone(pid_t process) {
    std::ifstream status("/proc/" + std::to_string(process) + "/stat");
    std::string number, name, state;
    return !(status >> number >> name >> state) || state == "Z" || state == "X";
  }

  std::string file_ =
      (std::filesystem::temp_directory_path() / ("limit-command-" + std::to_string(::getpid())))
          .string();
};

TEST(LimitCommand, TellsTheNumberThatItWrites) {
  EXPECT_EQ(run(above("echo 81.5 C")).value, 81.5);
  EXPECT_EQ(run(above("echo trouble >&2; echo 3 | cat")).value, 3);
}

TEST(LimitCommand, WithoutABoundTellsHowItEnds) {
  EXPECT_EQ(run({.command = "true"}).value, 1);
  EXPECT_EQ(run({.command = "echo what; exit 3"}).value, 0);
}

TEST(LimitCommand, TellsWhatIsWrong) {
  EXPECT_EQ(run(above("echo 5; exit 3")).trouble, "it ends with status 3");
  EXPECT_EQ(run(above("echo hot")).trouble, "what it writes does not begin with a number");
  EXPECT_EQ(run(above("true")).trouble, "what it writes does not begin with a number");
  EXPECT_EQ(run(above("kill -9 $$")).trouble, "it ends by signal 9");
  EXPECT_THAT(run({.command = "/no/such/command"}).trouble, HasSubstr("cannot be run"));
}

TEST(LimitCommand, HasNoInput) { EXPECT_EQ(run(above("cat; echo 2")).value, 2); }

TEST(LimitCommand, RunsAgainAndAgain) {
  const Limit limit = above("echo 2");
  LimitCommand command(limit);
  for (int i = 0; i < 3; ++i) {
    wait_until([&] { return command.is_idle(); });
    EXPECT_EQ(run(command).value, 2);
    EXPECT_FALSE(command.poll(0)) << "it is told once";
  }
}

TEST(LimitCommand, ThatWritesWithoutEndIsKilled) {
  const Limit limit = above("yes");
  LimitCommand command(limit);
  EXPECT_EQ(run(command).trouble, "it writes more than 64 KiB");
  wait_until([&] { return command.is_idle(); });
}

TEST_F(WrittenProcesses, OfACommandThatHangsAreKilled) {
  const Limit limit =
      above("echo $$ >>" + file_ + "; sh -c 'echo $$ >>" + file_ + "; sleep 1000'; echo 5");
  LimitCommand command(limit);
  command.start(0);
  const std::vector<pid_t> processes = wait_for(2);
  EXPECT_FALSE(command.poll(LimitCommand::kSeconds));
  EXPECT_FALSE(command.is_idle());
  const auto reading = command.poll(LimitCommand::kSeconds + 0.1);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->trouble, "it takes more than 10 s");
  wait_until([&] { return command.is_idle(); });
  for (const pid_t process : processes) wait_until([&] { return is_gone(process); });
}

TEST_F(WrittenProcesses, EndWithTheObject) {
  const Limit limit = above("echo $$ >>" + file_ + "; exec sleep 1000");
  pid_t process = 0;
  {
    LimitCommand command(limit);
    command.start(0);
    process = wait_for(1).front();
    EXPECT_FALSE(is_gone(process));
  }
  wait_until([&] { return is_gone(process); });
}

/// Ctrl-C reaches the terminal's processes; it must not end a command.
TEST_F(WrittenProcesses, AreInAGroupOfTheirOwn) {
  const Limit limit = above("echo $$ >>" + file_ + "; exec sleep 1000");
  LimitCommand command(limit);
  command.start(0);
  const pid_t process = wait_for(1).front();
  EXPECT_EQ(::getpgid(process), process);
}

}  // namespace
}  // namespace accrue::train
