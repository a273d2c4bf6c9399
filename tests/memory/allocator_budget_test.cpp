#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "accrue/core/error.h"
#include "accrue/memory/budget.h"
#include "allocator_fixture.h"

namespace accrue::memory {
namespace {

using ::testing::HasSubstr;
using AllocatorBudgetTest = AllocatorTest;

/// The message; empty if the allocation was not refused.
std::string refusal_of(std::int64_t bytes) {
  try {
    bytes_tensor(bytes);
    return {};
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
}

bool holds(const at::Tensor& tensor, std::uint8_t value) {
  const auto* const data = tensor.const_data_ptr<std::uint8_t>();
  return std::all_of(data, data + tensor.numel(), [value](auto byte) { return byte == value; });
}

TEST_F(AllocatorBudgetTest, RefusesWhatGoesBeyondIt) {
  allow(64 * kMebi);
  EXPECT_EQ(budget(), start_.reserved + 64 * kMebi);
  const at::Tensor held = bytes_tensor(40 * kMebi);
  const std::string message = refusal_of(40 * kMebi);
  EXPECT_THAT(message, HasSubstr("41943040 bytes (40.0 MiB)"));
  EXPECT_THAT(message, HasSubstr("16777216 bytes"));
  EXPECT_THAT(message, HasSubstr("in tensors"));
  EXPECT_THAT(message, HasSubstr("reserved"));
  EXPECT_EQ(last_missing_bytes(), 16 * kMebi);
  EXPECT_EQ(live(), 40 * kMebi);
  // The controls: an allocation that just fits, and no budget.
  EXPECT_EQ(refusal_of(24 * kMebi), "");
  EXPECT_EQ(reserved(), 64 * kMebi);
  set_budget(std::nullopt);
  EXPECT_EQ(budget(), std::nullopt);
  EXPECT_EQ(refusal_of(40 * kMebi), "");
}

TEST_F(AllocatorBudgetTest, GivesBackNoMoreThanItNeedsAndTheOldestFirst) {
  allow(64 * kMebi);
  at::Tensor first = bytes_tensor(30 * kMebi).fill_(1), next = bytes_tensor(20 * kMebi);
  const void* const newer = next.data_ptr();
  first.reset();
  next.reset();
  const at::Tensor large = bytes_tensor(40 * kMebi);
  EXPECT_EQ(reserved(), 64 * kMebi) << "26 of the 30 MiB went back";
  const std::int64_t calls = system_calls();
  const at::Tensor second = bytes_tensor(20 * kMebi);
  EXPECT_EQ(second.data_ptr(), newer);
  EXPECT_EQ(system_calls(), calls);
  // The rest of the first block is reused, grown by the memory that the budget then allows.
  set_budget(std::nullopt);
  const at::Tensor again = bytes_tensor(30 * kMebi).fill_(7);
  EXPECT_EQ(system_calls(), calls);
  EXPECT_EQ(reserved(), 90 * kMebi);
  EXPECT_TRUE(holds(again, 7));
}

TEST_F(AllocatorBudgetTest, PrefersASomewhatLargerBlockToANewOne) {
  const at::Tensor held = bytes_tensor(28 * kMebi).fill_(2);
  const void* const larger = bytes_tensor(36 * kMebi).fill_(1).data_ptr();
  {
    const at::Tensor roomy = bytes_tensor(30 * kMebi);
    EXPECT_NE(roomy.data_ptr(), larger) << "the control: without a budget there is room";
  }
  release_cached();
  const void* const block = bytes_tensor(36 * kMebi).fill_(1).data_ptr();
  allow(64 * kMebi);
  const std::int64_t calls = system_calls();
  at::Tensor fitted = bytes_tensor(30 * kMebi).fill_(3);
  EXPECT_EQ(fitted.data_ptr(), block);
  EXPECT_EQ(system_calls(), calls);
  EXPECT_EQ(reserved(), 64 * kMebi);
  // Nothing is free except 6 MiB of the block after the requested bytes.
  const at::Tensor rest = bytes_tensor(6 * kMebi).fill_(4);
  EXPECT_EQ(reserved(), 64 * kMebi);
  EXPECT_TRUE(holds(fitted, 3));
  EXPECT_TRUE(holds(held, 2));
  EXPECT_NE(refusal_of(kMebi), "") << "now it is full";
  // Once freed, the block serves its own class again.
  fitted.reset();
  set_budget(std::nullopt);
  EXPECT_EQ(bytes_tensor(36 * kMebi).data_ptr(), block);
}

TEST_F(AllocatorBudgetTest, ARefusalKeepsTheFreeLists) {
  allow(64 * kMebi);
  const at::Tensor held = bytes_tensor(40 * kMebi);
  const void* const block = bytes_tensor(20 * kMebi).data_ptr();
  EXPECT_NE(refusal_of(30 * kMebi), "");
  EXPECT_EQ(reserved(), 60 * kMebi) << "what a retry needs is not to be paid for again";
  EXPECT_EQ(bytes_tensor(20 * kMebi).data_ptr(), block);
}

TEST_F(AllocatorBudgetTest, LoweredItTakesTheFreeListsAtOnce) {
  const at::Tensor held = bytes_tensor(10 * kMebi);
  bytes_tensor(40 * kMebi);
  EXPECT_EQ(reserved(), 50 * kMebi);
  allow(30 * kMebi);
  EXPECT_EQ(reserved(), 30 * kMebi);
  allow(10 * kMebi);
  EXPECT_EQ(reserved(), 10 * kMebi);
}

TEST_F(AllocatorBudgetTest, BelowWhatIsLiveItRefusesUntilEnoughWasFreed) {
  at::Tensor held = bytes_tensor(32 * kMebi).fill_(5);
  allow(16 * kMebi);
  EXPECT_TRUE(holds(held, 5)) << "tensors keep what they have";
  EXPECT_NE(refusal_of(2 * kMebi), "");
  EXPECT_EQ(last_missing_bytes(), 18 * kMebi);
  held.reset();
  EXPECT_EQ(reserved(), 16 * kMebi) << "freed beyond the budget, it goes back at once";
  EXPECT_EQ(refusal_of(16 * kMebi), "");
}

TEST_F(AllocatorBudgetTest, WhatIsLeftOutsideIsNotForTensors) {
  allow(32 * kMebi);
  leave_outside(12 * kMebi);
  EXPECT_EQ(tensor_budget(), start_.reserved + 20 * kMebi);
  EXPECT_EQ(budget(), start_.reserved + 32 * kMebi);
  EXPECT_EQ(refusal_of(20 * kMebi), "");
  EXPECT_NE(refusal_of(21 * kMebi), "");
  bytes_tensor(20 * kMebi);
  leave_outside(24 * kMebi);
  EXPECT_EQ(reserved(), 8 * kMebi) << "free lists beyond it go back at once";
  leave_outside(1 << 30);
  EXPECT_EQ(tensor_budget(), 0);
  leave_outside(0);
  EXPECT_EQ(refusal_of(32 * kMebi), "");
}

/// Compared with the kernel's own count for this process.
TEST_F(AllocatorBudgetTest, OnlyPagesThatWereWrittenAreResident) {
  const std::int64_t before = resident_in_tensors(), process = resident_bytes();
  const at::Tensor held = bytes_tensor(64 * kMebi);
  EXPECT_LT(resident_in_tensors(), before + kMebi) << "reserved, and not written to";
  held.narrow(0, 0, 32 * kMebi).fill_(1);
  const std::int64_t half = resident_in_tensors() - before;
  EXPECT_GE(half, 32 * kMebi);
  EXPECT_LE(half, 34 * kMebi) << "up to a huge page more";
  EXPECT_NEAR(static_cast<double>(resident_bytes() - process), static_cast<double>(half), 4e6);
}

TEST_F(AllocatorBudgetTest, OfALibraryCountsTensorsAlone) {
  ASSERT_EQ(budget_of(), BudgetOf::tensors);
  allow(kMebi);
  EXPECT_EQ(measure_outside(), std::nullopt);
  EXPECT_EQ(left_outside(), 0);
}

TEST_F(AllocatorBudgetTest, SmallRequestsAreCountedButNotRefused) {
  set_budget(0);
  const at::Tensor small = bytes_tensor((64 << 10) - 1);
  EXPECT_GE(reserved(), (64 << 10) - 1);
  EXPECT_NE(refusal_of(64 << 10), "");
}

TEST_F(AllocatorBudgetTest, NegativeIsAUsageError) {
  try {
    set_budget(-1);
    FAIL() << "a negative budget was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
  }
  EXPECT_EQ(budget(), std::nullopt);
}

TEST_F(AllocatorBudgetTest, OnARequestThatTheSystemRefusesAllOfItIsMissing) {
  EXPECT_NE(refusal_of(std::int64_t{1} << 50), "");
  EXPECT_EQ(last_missing_bytes(), std::int64_t{1} << 50);
}

/// The observations of threads that take blocks of random sizes under a too small budget.
struct Crowd {
  std::atomic<int> refused{0}, served{0};
  std::atomic<bool> intact{true}, within{true};

  void churn(std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto value = static_cast<std::uint8_t>(seed);
    std::vector<at::Tensor> held;
    for (int round = 0; round < 400; ++round) {
      const std::int64_t bytes = (64 << 10) + static_cast<std::int64_t>(random() % (5 * kMebi));
      try {
        held.push_back(bytes_tensor(bytes));
        ++served;
      } catch (const c10::OutOfMemoryError&) {
        ++refused;
        held.resize(held.size() / 2);
        continue;
      }
      if (usage().reserved > *budget()) within = false;
      std::memset(held.back().data_ptr(), value, static_cast<std::size_t>(bytes));
      if (!holds(held[random() % held.size()], value)) intact = false;
    }
  }
};

TEST_F(AllocatorBudgetTest, HoldsOverThreads) {
  allow(48 * kMebi);
  Crowd crowd;
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t seed = 1; seed <= 4; ++seed)
      threads.emplace_back([&crowd, seed] { crowd.churn(seed); });
  }
  EXPECT_TRUE(crowd.intact);
  EXPECT_TRUE(crowd.within);
  EXPECT_GT(crowd.refused, 0);
  EXPECT_GT(crowd.served, 1000);
  EXPECT_EQ(live(), 0);
}

}  // namespace
}  // namespace accrue::memory
