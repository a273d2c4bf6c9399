#include "accrue/memory/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "allocator_fixture.h"

namespace accrue::memory {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kGibi = 1 << 30;

TEST(BudgetTest, IsNoneBytesOrWhatThereIs) {
  EXPECT_EQ(resolve_budget("none"), std::nullopt);
  EXPECT_EQ(resolve_budget("6GiB"), 6 * kGibi);
  EXPECT_EQ(resolve_budget("1048576 B"), kMebi);
  const std::optional<std::int64_t> automatic = resolve_budget("auto");
  ASSERT_TRUE(automatic.has_value());
  EXPECT_GT(*automatic, 0);
  // Other programs allocate and free memory meanwhile; the reserve is larger than that.
  EXPECT_LT(*automatic, held_of_a_budget() + available_bytes());
}

TEST(BudgetTest, RefusesWhatIsNoBudget) {
  for (const char* text : {"", "plenty", "0", "6", "1048576", "0GiB", "-1GiB", "auto please"}) {
    try {
      resolve_budget(text);
      ADD_FAILURE() << text << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage) << text;
      EXPECT_THAT(error.what(), HasSubstr("memory.budget")) << text;
    }
  }
}

TEST(BudgetTest, AutoLeavesAReserve) {
  EXPECT_EQ(auto_budget(0, 32 * kGibi), 31 * kGibi);
  EXPECT_EQ(auto_budget(8 * kGibi, 24 * kGibi), 31 * kGibi) << "what is reserved may stay";
  EXPECT_EQ(auto_budget(0, kGibi / 2), kGibi / 2 - 32 * kMebi);
  EXPECT_EQ(auto_budget(0, 10 * kMebi), 0);
}

class BudgetWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ =
        std::filesystem::path(::testing::TempDir()) /
        ("budget_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(file_);
  }
  void TearDown() override { std::filesystem::remove_all(file_); }

  void write(const std::string& content) const { std::ofstream(file_) << content; }
  /// Sets the file's time to an hour ago.
  void age() const {
    std::filesystem::last_write_time(
        file_, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }

  std::filesystem::path file_;
};

TEST_F(BudgetWatchTest, TheFileSaysTheBudget) {
  BudgetWatch watch(file_);
  EXPECT_FALSE(watch.poll(6 * kGibi, 0)) << "there is none yet";
  write("4GiB\n");
  const std::optional<BudgetChange> change = watch.poll(6 * kGibi, 0);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->budget, 4 * kGibi);
  EXPECT_THAT(change->reason, HasSubstr(file_.string() + " says \"4GiB\""));
  EXPECT_THAT(change->reason, HasSubstr("6.00 GiB"));
  EXPECT_FALSE(watch.poll(4 * kGibi, 0)) << "said once";
  write(" none ");
  ASSERT_TRUE(watch.poll(4 * kGibi, 0).has_value());
  write("auto");
  EXPECT_GT(watch.poll(std::nullopt, 0)->budget, 0);
}

TEST_F(BudgetWatchTest, AFileThatIsThereFromTheStartCounts) {
  write("3GiB");
  age();
  BudgetWatch watch(file_);
  EXPECT_EQ(watch.poll(std::nullopt, 0)->budget, 3 * kGibi);
  EXPECT_FALSE(watch.poll(3 * kGibi, 0));
}

TEST_F(BudgetWatchTest, SeesAWriteThatTheTimeStampHides) {
  BudgetWatch watch(file_);
  for (const char digit : {'4', '3', '2'}) {
    write(std::string(1, digit) + "GiB");
    EXPECT_EQ(watch.poll(std::nullopt, 0)->budget, (digit - '0') * kGibi);
    EXPECT_FALSE(watch.poll(std::nullopt, 0));
  }
}

TEST_F(BudgetWatchTest, DoesNotReadAFileThatHasNotChanged) {
  write("4GiB");
  age();
  const auto time = std::filesystem::last_write_time(file_);
  BudgetWatch watch(file_);
  EXPECT_TRUE(watch.poll(std::nullopt, 0));
  write("2GiB");
  std::filesystem::last_write_time(file_, time);
  EXPECT_FALSE(watch.poll(std::nullopt, 0)) << "one stat() tells no difference";
  age();
  EXPECT_EQ(watch.poll(std::nullopt, 0)->budget, 2 * kGibi);
}

TEST_F(BudgetWatchTest, WrittenAnewItCountsAnew) {
  write("4GiB");
  age();
  BudgetWatch watch(file_);
  EXPECT_TRUE(watch.poll(std::nullopt, 0));
  write("4GiB");  // by a user who wants it back after a signal lowered it
  EXPECT_EQ(watch.poll(3 * kGibi, 0)->budget, 4 * kGibi);
}

TEST_F(BudgetWatchTest, WhatItCannotReadChangesNothingAndIsSaidOnce) {
  BudgetWatch watch(file_);
  write("a lot");
  const std::optional<BudgetChange> garbled = watch.poll(6 * kGibi, 0);
  ASSERT_TRUE(garbled);
  EXPECT_EQ(garbled->budget, 6 * kGibi);
  EXPECT_THAT(garbled->reason, HasSubstr("\"a lot\""));
  EXPECT_THAT(garbled->reason, HasSubstr("stays at a budget of 6.00 GiB"));
  EXPECT_FALSE(watch.poll(6 * kGibi, 0));

  std::filesystem::remove(file_);
  EXPECT_THAT(watch.poll(6 * kGibi, 0)->reason, HasSubstr("is gone"));
  EXPECT_FALSE(watch.poll(6 * kGibi, 0));

  std::filesystem::create_directory(file_);  // which stat() sees and nobody can read as a file
  const std::optional<BudgetChange> unreadable = watch.poll(6 * kGibi, 0);
  ASSERT_TRUE(unreadable);
  EXPECT_EQ(unreadable->budget, 6 * kGibi);
  EXPECT_FALSE(watch.poll(6 * kGibi, 0));
}

TEST_F(BudgetWatchTest, AnEmptyFileIsBeingWritten) {
  BudgetWatch watch(file_);
  write("");
  EXPECT_FALSE(watch.poll(6 * kGibi, 0));
  write("1GiB");
  EXPECT_EQ(watch.poll(6 * kGibi, 0)->budget, kGibi);
}

TEST_F(BudgetWatchTest, ASignalTakesATenth) {
  BudgetWatch watch({});
  EXPECT_FALSE(watch.poll(1000, 500));
  std::raise(SIGUSR1);
  const auto of_budget = watch.poll(1000, 500);
  ASSERT_TRUE(of_budget);
  EXPECT_EQ(of_budget->budget, 900);
  EXPECT_THAT(of_budget->reason, HasSubstr("SIGUSR1"));
  EXPECT_FALSE(watch.poll(900, 500));
  std::raise(SIGUSR1);
  EXPECT_EQ(watch.poll(std::nullopt, 500)->budget, 450) << "of what is reserved";
}

TEST_F(BudgetWatchTest, ASignalLeavesWhatTheRunNeeds) {
  BudgetWatch watch({});
  watch.leave_at_least([] { return std::int64_t{950}; });
  std::raise(SIGUSR1);
  const auto lowered = watch.poll(1000, 500);
  ASSERT_TRUE(lowered);
  EXPECT_EQ(lowered->budget, 950);
  EXPECT_THAT(lowered->reason, HasSubstr("but nothing of what the run needs"));
  std::raise(SIGUSR1);
  const auto kept = watch.poll(950, 500);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->budget, 950);
  EXPECT_THAT(kept->reason, HasSubstr("SIGUSR1 takes nothing, as the run needs 950 B"));
  std::raise(SIGUSR1);
  EXPECT_EQ(watch.poll(std::nullopt, 500)->budget, std::nullopt) << "no budget comes of it";
}

TEST_F(BudgetWatchTest, ASignalWaitsWhileTheFileAloneIsAsked) {
  BudgetWatch watch(file_);
  std::raise(SIGUSR1);
  EXPECT_FALSE(watch.poll_file(1000));
  EXPECT_EQ(watch.poll(1000, 0)->budget, 900);
}

volatile std::sig_atomic_t own_handler_ran = 0;

TEST_F(BudgetWatchTest, HearsWhatCameWhileAnEarlierOneWatched) {
  const BudgetWatch earlier("");
  std::raise(SIGUSR1);
  {
    BudgetWatch watch("");
    const auto change = watch.poll(1000, 0);
    ASSERT_TRUE(change);
    EXPECT_EQ(change->budget, 900);
  }
  std::raise(SIGUSR1);  // this must not end the process either
}

TEST_F(BudgetWatchTest, AfterwardsTheSignalIsWhatItWas) {
  auto* const before = std::signal(SIGUSR1, [](int) { own_handler_ran = 1; });
  {
    BudgetWatch watch({});
    std::raise(SIGUSR1);
    EXPECT_TRUE(watch.poll(1000, 0));
    EXPECT_EQ(own_handler_ran, 0);
  }
  std::raise(SIGUSR1);
  EXPECT_EQ(own_handler_ran, 1);
  std::signal(SIGUSR1, before);
}

TEST_F(BudgetWatchTest, BothAreHeardOneAfterTheOther) {
  BudgetWatch watch(file_);
  write("1000 B");
  std::raise(SIGUSR1);
  EXPECT_EQ(watch.poll(std::nullopt, 0)->budget, 1000);
  EXPECT_EQ(watch.poll(1000, 0)->budget, 900);
}

}  // namespace
}  // namespace accrue::memory
