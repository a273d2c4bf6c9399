#include "memory/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace accrue::memory {
namespace {

using Action = Recovery::Action;
using ::testing::HasSubstr;

TEST(Recovery, RetriesOnceThenHalvesThenGivesUp) {
  Recovery recovery({.planned = 5, .micro_batch = 5});
  EXPECT_EQ(recovery.failed(5, 1).action, Action::retry);
  EXPECT_EQ(recovery.state().micro_batch, 5);
  EXPECT_EQ(recovery.failed(5, 2).action, Action::split);
  EXPECT_EQ(recovery.state().micro_batch, 3);
  EXPECT_EQ(recovery.failed(3, 1).action, Action::retry);
  EXPECT_EQ(recovery.failed(3, 2).micro_batch, 2);
  EXPECT_EQ(recovery.failed(2, 2).micro_batch, 1);
  const Recovery::Decision last = recovery.failed(1, 2);
  EXPECT_EQ(last.action, Action::give_up);
  EXPECT_THAT(last.reason, HasSubstr("a single sample"));
}

TEST(Recovery, HalvesTheShortLastMicroBatchAndNeverGrowsByIt) {
  Recovery recovery({.planned = 8, .micro_batch = 8});
  EXPECT_EQ(recovery.failed(3, 2).micro_batch, 2);
  Recovery small({.planned = 8, .micro_batch = 2});
  EXPECT_EQ(small.failed(8, 2).micro_batch, 2) << "of the part that was split before";
}

TEST(Recovery, DoesNotSplitWhereItMayNot) {
  Recovery recovery({.planned = 8, .micro_batch = 8}, "the sums are fixed-point");
  EXPECT_EQ(recovery.failed(8, 1).action, Action::retry);
  const Recovery::Decision second = recovery.failed(8, 2);
  EXPECT_EQ(second.action, Action::give_up);
  EXPECT_THAT(second.reason, HasSubstr("the sums are fixed-point"));
  EXPECT_EQ(recovery.state().micro_batch, 8);
}

TEST(Recovery, GrowsByOneStepAfterQuietWindows) {
  Recovery recovery({.planned = 12, .micro_batch = 12});
  recovery.failed(12, 2);
  recovery.failed(6, 2);
  ASSERT_EQ(recovery.state().micro_batch, 3);
  EXPECT_FALSE(recovery.window_done(false));
  std::vector<std::int64_t> grown_at, sizes;
  for (std::int64_t window = 1; window <= 1000; ++window) {
    const auto decision = recovery.window_done(true);
    if (!decision) continue;
    grown_at.push_back(window);
    sizes.push_back(decision->micro_batch);
  }
  EXPECT_THAT(grown_at, ::testing::ElementsAre(100, 200));
  EXPECT_THAT(sizes, ::testing::ElementsAre(6, 12));
}

TEST(Recovery, TheCountOfQuietWindowsBeginsAnewWithEachFailure) {
  Recovery recovery({.planned = 4, .micro_batch = 2});
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(recovery.window_done(true));
  recovery.failed(2, 1);
  EXPECT_FALSE(recovery.window_done(false));
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(recovery.window_done(true));
  EXPECT_TRUE(recovery.window_done(true));
}

/// For any behaviour of memory, the size changes direction at most once in 100 windows: it grows
/// only after as many windows without failures.
TEST(Recovery, NeverOscillates) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t planned = 1 + static_cast<std::int64_t>(random() % 64);
    std::int64_t fits = planned;
    Recovery recovery({.planned = planned, .micro_batch = planned});
    std::int64_t last_growth = -1'000;
    for (std::int64_t window = 0; window < 2'000; ++window) {
      if (random() % 50 == 0) fits = 1 + static_cast<std::int64_t>(random() % planned);
      bool quiet = true;
      while (recovery.state().micro_batch > fits) {
        quiet = false;
        const std::int64_t samples = recovery.state().micro_batch;
        ASSERT_EQ(recovery.failed(samples, 1).action, Action::retry);
        ASSERT_EQ(recovery.failed(samples, 2).action, Action::split);
      }
      if (recovery.window_done(quiet)) {
        ASSERT_GE(window - last_growth, Recovery::kPatience);
        last_growth = window;
      }
      ASSERT_LE(recovery.state().micro_batch, planned);
      ASSERT_GE(recovery.state().micro_batch, 1);
    }
  }
}

TEST(Recovery, GrowsAtOnceWhereTheLimitIsRaised) {
  Recovery recovery({.planned = 16, .micro_batch = 16});
  EXPECT_FALSE(recovery.limit_raised(1'000)) << "it never shrank";
  recovery.failed(16, 2, 900);
  recovery.failed(8, 2, 500);
  ASSERT_EQ(recovery.state().micro_batch, 4);
  EXPECT_FALSE(recovery.limit_raised(499)) << "8 need 500";
  EXPECT_EQ(recovery.state().micro_batch, 4);
  const auto half = recovery.limit_raised(899);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->micro_batch, 8);
  EXPECT_THAT(half->reason, HasSubstr("micro-batches grow to 8 samples"));
  ASSERT_TRUE(recovery.limit_raised(std::nullopt));
  EXPECT_EQ(recovery.state().micro_batch, 16);
  Recovery unknown({.planned = 16, .micro_batch = 16});
  unknown.failed(16, 2);
  ASSERT_TRUE(unknown.limit_raised(1)) << "nothing is known of what the system refused";
  EXPECT_EQ(unknown.state().micro_batch, 16);
}

TEST(Recovery, GoesOnFromItsState) {
  Recovery first({.planned = 8, .micro_batch = 4, .quiet_windows = 60});
  for (int i = 0; i < 20; ++i) first.window_done(true);
  Recovery second(first.state());
  int windows = 0;
  while (!second.window_done(true)) ++windows;
  EXPECT_EQ(windows, 19);
}

}  // namespace
}  // namespace accrue::memory
