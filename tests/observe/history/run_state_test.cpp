#include "observe/history/run_state.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "observe/history/run_folder.h"

namespace accrue::observe {
namespace {

using nlohmann::json;

class RunStateTest : public RunFolder {
 protected:
  std::filesystem::path lock() const { return folder_ / ".accrue-lock"; }
};

TEST_F(RunStateTest, IsClaimedAsLongAsAProcessHoldsTheLock) {
  EXPECT_FALSE(is_claimed(folder_)) << "there is no lock";
  write(".accrue-lock", "{\"process\":1}");
  EXPECT_FALSE(is_claimed(folder_)) << "the file alone is nobody's";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const int descriptor = open(lock().c_str(), O_RDWR);
    const bool is_held = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    if (::write(ready[1], "x", 1) != 1 || !is_held) _exit(1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(is_claimed(folder_));
  EXPECT_TRUE(is_claimed(folder_)) << "asking changes nothing";
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  EXPECT_FALSE(is_claimed(folder_)) << "the file stayed, the process did not";
}

TEST_F(RunStateTest, AskingLeavesTheLockToBeTaken) {
  write(".accrue-lock", "");
  EXPECT_FALSE(is_claimed(folder_));
  const int descriptor = open(lock().c_str(), O_RDWR);
  EXPECT_EQ(flock(descriptor, LOCK_EX | LOCK_NB), 0);
  close(descriptor);
}

TEST(RunStateWhenLeft, IsWhatRunJsonSays) {
  const json done = {{"ended", {{"state", "done"}, {"time", "2026-01-02T00:00:00Z"}}}};
  const json interrupted = {{"ended", {{"state", "interrupted"}}}};
  EXPECT_EQ(state_when_left(done, 10, 10), RunState::done);
  EXPECT_EQ(state_when_left(done, {}, {}), RunState::done);
  EXPECT_EQ(state_when_left(interrupted, 10, 5), RunState::interrupted);
}

TEST(RunStateWhenLeft, IsNotThatOfAnAttemptBeforeTheLast) {
  json run = {{"ended", {{"state", "interrupted"}, {"time", "2026-01-02T00:00:00Z"}}},
              {"resumed", {{{"step", 5}, {"time", "2026-01-03T00:00:00Z"}}}}};
  EXPECT_EQ(state_when_left(run, 10, 7), RunState::stopped);
  EXPECT_EQ(state_when_left(run, 10, 10), RunState::done);
  run["resumed"][0]["time"] = "2026-01-01T00:00:00Z";
  EXPECT_EQ(state_when_left(run, 10, 7), RunState::interrupted);
}

TEST(RunStateWhenLeft, FollowsFromTheStepsWhereRunJsonSaysNothing) {
  EXPECT_EQ(state_when_left(json::object(), 10, 10), RunState::done);
  EXPECT_EQ(state_when_left(json::object(), 10, 9), RunState::stopped);
  EXPECT_EQ(state_when_left(json::object(), {}, 9), RunState::stopped);
  EXPECT_EQ(state_when_left(json::object(), 10, {}), RunState::stopped);
  for (const json& odd : {json{{"ended", 5}}, json{{"ended", {{"state", 5}}}}, json{{"resumed", 1}},
                          json{{"ended", {{"state", "melted"}}}}})
    EXPECT_EQ(state_when_left(odd, 10, 9), RunState::stopped) << odd;
}

}  // namespace
}  // namespace accrue::observe
