#include "batch/changing_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/core/error.h"
#include "batch/variable_windows.h"
#include "core/rng.h"

namespace accrue::batch {
namespace {

using ::testing::HasSubstr;

std::int64_t random_below(std::uint64_t seed, std::int64_t index, std::int64_t most) {
  return static_cast<std::int64_t>(random_word(seed, 0, static_cast<std::uint64_t>(index)) %
                                   static_cast<std::uint64_t>(most));
}

ChangingWindows::BudgetOf always(WindowBudget budget) {
  return [budget](const WindowPlace&) { return budget; };
}

ChangingWindows uniform(std::int64_t samples, std::int64_t tokens, ChangingWindows::BudgetOf budget,
                        LastWindow last = LastWindow::weighted) {
  return {{.samples_per_epoch = samples, .tokens_per_sample = tokens, .last = last},
          std::move(budget)};
}

/// Four samples for two windows, then eight.
WindowBudget four_then_eight(const WindowPlace& place) {
  return {.samples = place.index < 2 ? 4 : 8};
}

TEST(ChangingWindows, EachWindowHasTheBudgetOfItsPlace) {
  const ChangingWindows windows = uniform(100, 16, four_then_eight);
  EXPECT_EQ(windows.window(0), (Range{0, 4}));
  EXPECT_EQ(windows.window(1), (Range{4, 8}));
  EXPECT_EQ(windows.window(2), (Range{8, 16}));
  EXPECT_EQ(windows.place(3).begin, 16);
  EXPECT_EQ(windows.place(3).tokens, 16 * 16);
  EXPECT_EQ(windows.tokens(2), 8 * 16);
}

TEST(ChangingWindows, AskedInAnyOrderTheyAreTheSame) {
  const ChangingWindows forward = uniform(37, 8, four_then_eight),
                        backward = uniform(37, 8, four_then_eight);
  std::vector<Range> ranges;
  for (std::int64_t i = 0; i < 30; ++i) ranges.push_back(forward.window(i));
  for (std::int64_t i = 29; i >= 0; --i)
    EXPECT_EQ(backward.window(i), ranges[static_cast<std::size_t>(i)]) << i;
}

TEST(ChangingWindows, EndWithTheEpochWhoseLastOneIsShortOrDropped) {
  const ChangingWindows weighted = uniform(10, 1, four_then_eight);
  EXPECT_EQ(weighted.window(2), (Range{8, 10}));
  EXPECT_EQ(weighted.window(3), (Range{10, 18}));
  EXPECT_EQ(weighted.windows_in_epoch(0), 3);
  EXPECT_EQ(weighted.windows_in_epoch(1), 2);
  const ChangingWindows dropped = uniform(10, 1, four_then_eight, LastWindow::drop);
  EXPECT_EQ(dropped.window(2), (Range{10, 18}));
  EXPECT_EQ(dropped.window(3), (Range{20, 28}));
  EXPECT_EQ(dropped.windows_in_epoch(1), 1);
}

/// A dropped window is replaced by one of the next epoch, with its own budget.
TEST(ChangingWindows, BehindADroppedOneTheBudgetIsThatOfTheNextEpoch) {
  const ChangingWindows windows = uniform(
      100, 1,
      [](const WindowPlace& place) { return WindowBudget{.samples = place.begin < 100 ? 8 : 16}; },
      LastWindow::drop);
  EXPECT_EQ(windows.window(11), (Range{88, 96}));
  EXPECT_EQ(windows.window(12), (Range{100, 116}));
}

TEST(ChangingWindows, AnEpochWithoutAWholeWindowIsRefusedWhereShortOnesAreDropped) {
  const ChangingWindows windows = uniform(
      10, 1,
      [](const WindowPlace& place) { return WindowBudget{.samples = place.index < 2 ? 4 : 11}; },
      LastWindow::drop);
  EXPECT_EQ(windows.window(1), (Range{4, 8}));
  try {
    windows.window(2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("whole batch"));
  }
}

TEST(ChangingWindows, CountWhatARunOfTokensOrEpochsTakes) {
  const ChangingWindows windows = uniform(100, 10, four_then_eight);
  EXPECT_EQ(windows.windows_of_tokens(1), 1);
  EXPECT_EQ(windows.windows_of_tokens(80), 2);
  EXPECT_EQ(windows.windows_of_tokens(81), 3);
  EXPECT_EQ(windows.windows_of_tokens(160), 3);
  EXPECT_EQ(windows.windows_of_epochs(1), windows.windows_in_epoch(0));
  EXPECT_EQ(windows.windows_of_epochs(0.08), 2);
  EXPECT_EQ(windows.windows_of_epochs(0.001), 1);
  EXPECT_THROW(uniform(100, 0, four_then_eight).windows_of_tokens(5), Error);
}

TEST(ChangingWindows, AChangeLeavesWhatWasBeforeIt) {
  const ChangingWindows windows = uniform(50, 2, always({.samples = 4}));
  const auto changed = windows.changed_from(3, {.samples = 10});
  const auto twice = changed->changed_from(5, {.samples = 2});
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(twice->window(i), windows.window(i)) << i;
  EXPECT_EQ(twice->window(3), (Range{12, 22}));
  EXPECT_EQ(twice->window(4), (Range{22, 32}));
  EXPECT_EQ(twice->window(5), (Range{32, 34}));
  EXPECT_EQ(windows.window(3), (Range{12, 16})) << "the one it was made from stays as it was";
}

TEST(ChangingWindows, ASampleThatExceedsTheBudgetIsRefused) {
  const ChangingWindows windows = uniform(50, 32, always({.tokens = 31}));
  EXPECT_THROW(windows.window(0), Error);
}

/// With one budget for all, these are the windows of a constant batch.
class SameAsFixed : public ::testing::TestWithParam<LastWindow> {};

TEST_P(SameAsFixed, OfSamplesAlike) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::int64_t samples = 20 + random_below(seed, 0, 40),
                       size = 1 + random_below(seed, 1, 19);
    const ChangingWindows windows = uniform(samples, 3, always({.samples = size}), GetParam());
    const WindowSchedule fixed{samples, size, GetParam(), 3};
    for (std::int64_t i = 0; i < 50; ++i) {
      EXPECT_EQ(windows.window(i), fixed.window(i)) << seed << ' ' << i;
      EXPECT_EQ(windows.tokens(i), fixed.tokens(i)) << seed << ' ' << i;
    }
    for (const std::int64_t tokens : {1, 17, 400})
      EXPECT_EQ(windows.windows_of_tokens(tokens), fixed.windows_of_tokens(tokens)) << seed;
  }
}

TEST_P(SameAsFixed, OfSamplesThatDiffer) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::int64_t samples = 20 + random_below(seed, 0, 40);
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < samples; ++i) lengths.push_back(1 + random_below(seed, 2 + i, 9));
    const Sampler sampler(samples, Order::shuffle, seed);
    const auto tokens_of = [=](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
    const WindowBudget budget{.tokens = 12 + random_below(seed, 1, 20)};
    const ChangingWindows windows(
        {.samples_per_epoch = samples,
         .tokens_of = [=](std::int64_t ordinal) { return tokens_of(sampler.sample(ordinal)); },
         .last = GetParam()},
        always(budget));
    const VariableWindows fixed(sampler, tokens_of, budget, GetParam());
    for (std::int64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(windows.window(i), fixed.window(i)) << seed << ' ' << i;
      EXPECT_EQ(windows.tokens(i), fixed.tokens(i)) << seed << ' ' << i;
    }
    EXPECT_EQ(windows.windows_of_tokens(200), fixed.windows_of_tokens(200)) << seed;
    EXPECT_EQ(windows.windows_in_epoch(1), fixed.windows_in_epoch(1)) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Last, SameAsFixed,
                         ::testing::Values(LastWindow::weighted, LastWindow::drop));

}  // namespace
}  // namespace accrue::batch
