#include "core/helper_thread.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "core/startable_threads.h"

namespace accrue {
namespace {

std::ptrdiff_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(HelperThread, GivesWhatTheWorkGave) {
  HelperTask<int> begun = run_on_helper([] { return 7; });
  EXPECT_FALSE(begun.in_place);
  EXPECT_EQ(begun.result.get(), 7);
  HelperTask<int> failed = run_on_helper([]() -> int { throw std::runtime_error("lost"); });
  EXPECT_THROW(failed.result.get(), std::runtime_error);
}

TEST(HelperThread, RunsOnAThreadThatCanBeJoined) {
  std::thread::id of_work;
  std::thread thread = start_thread([&] { of_work = std::this_thread::get_id(); });
  ASSERT_TRUE(thread.joinable());
  thread.join();
  EXPECT_NE(of_work, std::this_thread::get_id());
}

TEST(StartableThreads, AreCountedAndLeaveNothingBehind) {
  const std::ptrdiff_t before = threads_of_process();
  EXPECT_EQ(startable_threads(0), 0);
  EXPECT_EQ(startable_threads(3), 3);
  EXPECT_EQ(threads_of_process(), before);
}

}  // namespace
}  // namespace accrue
