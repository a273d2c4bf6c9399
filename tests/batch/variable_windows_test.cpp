#include "batch/variable_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "accrue/core/error.h"
#include "core/rng.h"

namespace accrue::batch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Lengths = std::vector<std::int64_t>;

constexpr std::int64_t epochs = 5;

Lengths random_lengths(std::int64_t samples, std::int64_t longest, std::uint64_t seed) {
  Lengths lengths;
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::uint64_t word = random_word(seed, 0, static_cast<std::uint64_t>(i));
    lengths.push_back(1 + static_cast<std::int64_t>(word % static_cast<std::uint64_t>(longest)));
  }
  return lengths;
}

/// Lengths and the order in which they are drawn.
struct Draws {
  Lengths lengths;
  Sampler sampler;

  Draws(Lengths of, Order order)
      : lengths(std::move(of)), sampler(std::ssize(lengths), order, 1337) {}

  std::int64_t tokens(std::int64_t ordinal) const {
    return lengths[static_cast<std::size_t>(sampler.sample(ordinal))];
  }
  std::int64_t tokens(Range range) const {
    std::int64_t sum = 0;
    for (std::int64_t i = range.begin; i < range.end; ++i) sum += tokens(i);
    return sum;
  }
  VariableWindows windows(WindowBudget budget, LastWindow last = LastWindow::weighted) const {
    return VariableWindows(
        sampler, [of = lengths](std::int64_t i) { return of[static_cast<std::size_t>(i)]; }, budget,
        last);
  }
};

std::vector<Range> ranges_of(const VariableWindows& windows, std::int64_t of_epochs) {
  std::vector<Range> ranges;
  const std::int64_t count = windows.windows_before_epoch(of_epochs);
  for (std::int64_t i = 0; i < count; ++i) ranges.push_back(windows.window(i));
  return ranges;
}

/// Each draw of `epochs` epochs in exactly one window, within an epoch, within the budget, and no
/// window that could have taken the next draw.
::testing::AssertionResult are_greedy(const std::vector<Range>& ranges, const Draws& draws,
                                      WindowBudget budget) {
  std::int64_t expected_begin = 0;
  const std::int64_t size = draws.sampler.size();
  for (const Range& range : ranges) {
    if (range.begin != expected_begin || range.size() < 1)
      return ::testing::AssertionFailure() << "a gap or an overlap at draw " << range.begin;
    if (range.begin / size != (range.end - 1) / size)
      return ::testing::AssertionFailure() << "draw " << range.begin << " crosses an epoch's end";
    const std::int64_t tokens = draws.tokens(range);
    if (tokens > budget.tokens || range.size() > budget.samples)
      return ::testing::AssertionFailure() << "over budget at draw " << range.begin;
    const bool could_grow = range.end % size != 0 && range.size() < budget.samples &&
                            tokens + draws.tokens(range.end) <= budget.tokens;
    if (could_grow) return ::testing::AssertionFailure() << "not maximal at draw " << range.begin;
    expected_begin = range.end;
  }
  if (expected_begin != epochs * size)
    return ::testing::AssertionFailure() << "ends at draw " << expected_begin;
  return ::testing::AssertionSuccess();
}

TEST(VariableWindows, TakeEveryDrawOnceAndAsMuchAsFits) {
  for (const Order order : {Order::shuffle, Order::sequential}) {
    for (const std::int64_t samples : {1, 2, 17, 200}) {
      for (const std::int64_t budget : {9, 10, 31, 500}) {
        const Draws draws(random_lengths(samples, 9, static_cast<std::uint64_t>(budget)), order);
        for (const WindowBudget& limits :
             {WindowBudget{.tokens = budget}, WindowBudget{.samples = budget},
              WindowBudget{.tokens = budget, .samples = 3}}) {
          EXPECT_TRUE(are_greedy(ranges_of(draws.windows(limits), epochs), draws, limits))
              << samples << " samples, " << limits.tokens << " tokens";
        }
      }
    }
  }
}

TEST(VariableWindows, ComparatorRefusesOtherWindows) {
  const Draws draws(random_lengths(50, 9, 3), Order::shuffle);
  const WindowBudget budget{.tokens = 30};
  const std::vector<Range> good = ranges_of(draws.windows(budget), epochs);
  ASSERT_TRUE(are_greedy(good, draws, budget));
  EXPECT_FALSE(are_greedy(ranges_of(draws.windows({.tokens = 29}), epochs), draws, budget));
  EXPECT_FALSE(are_greedy(ranges_of(draws.windows({.tokens = 31}), epochs), draws, budget));
  std::vector<Range> gap = good;
  --gap.front().end;
  EXPECT_FALSE(are_greedy(gap, draws, budget));
  EXPECT_FALSE(are_greedy({good.begin(), good.end() - 1}, draws, budget));
}

TEST(VariableWindows, LieWhereTheLengthsSay) {
  const Draws draws({3, 3, 4, 10, 1, 1, 1}, Order::sequential);
  EXPECT_THAT(ranges_of(draws.windows({.tokens = 10}), 2),
              ElementsAre(Range{0, 3}, Range{3, 4}, Range{4, 7}, Range{7, 10}, Range{10, 11},
                          Range{11, 14}));
}

TEST(VariableWindows, AreTheSameAtWhicheverWindowARunStarts) {
  const Draws draws(random_lengths(40, 9, 5), Order::shuffle);
  const WindowBudget budget{.tokens = 25};
  const VariableWindows in_order = draws.windows(budget);
  const std::vector<Range> expected = ranges_of(in_order, epochs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const VariableWindows resumed = draws.windows(budget);
    EXPECT_EQ(resumed.window(static_cast<std::int64_t>(i)), expected[i]);
    const std::size_t back = expected.size() - 1 - i;
    EXPECT_EQ(in_order.window(static_cast<std::int64_t>(back)), expected[back]);
  }
}

TEST(VariableWindows, DifferByEpochWhereTheOrderDoes) {
  const Draws draws(random_lengths(200, 50, 7), Order::shuffle);
  const VariableWindows windows = draws.windows({.tokens = 60});
  std::vector<std::int64_t> counts;
  for (std::int64_t epoch = 0; epoch < 8; ++epoch)
    counts.push_back(windows.windows_in_epoch(epoch));
  EXPECT_GT(*std::max_element(counts.begin(), counts.end()),
            *std::min_element(counts.begin(), counts.end()));
  EXPECT_EQ(windows.windows_before_epoch(8), std::accumulate(counts.begin(), counts.end(), 0));
}

TEST(VariableWindows, TellTheirTokens) {
  const Draws draws(random_lengths(60, 9, 11), Order::shuffle);
  const VariableWindows windows = draws.windows({.tokens = 40});
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < windows.windows_before_epoch(2); ++i) {
    EXPECT_EQ(windows.tokens(i), draws.tokens(windows.window(i)));
    sum += windows.tokens(i);
    // The fewest windows for every number of tokens from one window's to the next's.
    EXPECT_EQ(windows.windows_of_tokens(sum), i + 1);
    EXPECT_EQ(windows.windows_of_tokens(sum + 1), i + 2);
  }
  EXPECT_EQ(windows.tokens_in_epoch(0), draws.tokens(Range{0, 60}));
  EXPECT_EQ(windows.windows_of_tokens(0), 0);
}

TEST(VariableWindows, DropTheLastOneUnlessItIsFull) {
  const Draws draws({4, 6, 5, 4}, Order::sequential);
  const VariableWindows dropped = draws.windows({.tokens = 10}, LastWindow::drop);
  EXPECT_EQ(dropped.windows_in_epoch(0), 1);
  EXPECT_EQ(dropped.window(1), (Range{4, 6}));
  EXPECT_EQ(dropped.tokens_in_epoch(1), 10);
  const Draws full({4, 6, 5, 5}, Order::sequential);
  EXPECT_EQ(full.windows({.tokens = 10}, LastWindow::drop).windows_in_epoch(0), 2);
  EXPECT_EQ(draws.windows({.samples = 2}, LastWindow::drop).windows_in_epoch(0), 2);
}

TEST(VariableWindows, MayHaveNoneWhereAllAreDropped) {
  const Draws draws({4, 6}, Order::shuffle);
  const VariableWindows none = draws.windows({.tokens = 11}, LastWindow::drop);
  EXPECT_EQ(none.windows_in_epoch(0), 0);
  EXPECT_EQ(none.window(7), Range{});
  EXPECT_EQ(none.tokens(7), 0);
  EXPECT_EQ(none.windows_of_tokens(100), 0);
}

TEST(VariableWindows, RefuseASampleThatFitsInNone) {
  const Draws draws({4, 6, 12, 5}, Order::shuffle);
  try {
    draws.windows({.tokens = 11});
    FAIL() << "12 tokens were taken into a window of 11";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    EXPECT_THAT(error.what(), HasSubstr("batch.tokens"));
    EXPECT_THAT(error.what(), HasSubstr("12 tokens (sample 2)"));
    EXPECT_THAT(error.what(), HasSubstr("received 11"));
  }
  EXPECT_NO_THROW(draws.windows({.tokens = 12}));
}

TEST(VariableWindows, RefuseWhatIsNoBudgetAndNoIndex) {
  const Draws draws({4, 6}, Order::shuffle);
  EXPECT_THROW(draws.windows({.tokens = 0}), Error);
  EXPECT_THROW(draws.windows({.samples = 0}), Error);
  EXPECT_THROW(draws.windows({}).window(-1), Error);
  EXPECT_THROW(draws.windows({}).windows_in_epoch(-1), Error);
}

TEST(VariableWindows, AgreeWithTheScheduleOfOneLength) {
  for (const LastWindow last : {LastWindow::weighted, LastWindow::drop}) {
    const WindowSchedule fixed{23, 4, last, 8};
    const Sampler sampler(23, Order::shuffle, 3);
    const WindowSchedule by_tokens = variable_window_schedule(
        sampler, [](std::int64_t) { return 8; }, {.tokens = 39}, last);
    const WindowSchedule by_samples = variable_window_schedule(
        sampler, [](std::int64_t) { return 8; }, {.samples = 4}, last);
    EXPECT_EQ(by_samples.windows_per_epoch(), fixed.windows_per_epoch());
    EXPECT_EQ(by_samples.samples_per_window, 4);
    for (std::int64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(by_samples.window(i), fixed.window(i));
      EXPECT_EQ(by_samples.tokens(i), fixed.tokens(i));
      EXPECT_EQ(by_samples.epoch_at(i), fixed.epoch_at(i));
      const double run = 0.25 * static_cast<double>(i + 1);
      EXPECT_EQ(by_samples.windows_of_epochs(run), fixed.windows_of_epochs(run)) << run;
      EXPECT_EQ(by_samples.windows_of_tokens(37 * i), fixed.windows_of_tokens(37 * i)) << 37 * i;
    }
    // A budget of 39 holds 4 samples of 8, and 7 tokens stay free: no window is full to the token.
    EXPECT_EQ(by_tokens.window(3), fixed.window(3));
    EXPECT_EQ(by_tokens.windows_in_epoch(1), last == LastWindow::drop ? 5 : 6);
  }
}

TEST(WindowSchedule, StatesTheLengthOfARun) {
  const WindowSchedule schedule{10, 4, LastWindow::weighted, 16};
  EXPECT_EQ(schedule.windows_of_epochs(2), 6);
  EXPECT_EQ(schedule.windows_of_epochs(0.01), 1);
  EXPECT_EQ(schedule.windows_of_tokens(1), 1);
  EXPECT_EQ(schedule.windows_of_tokens(64), 1);
  EXPECT_EQ(schedule.windows_of_tokens(65), 2);
  EXPECT_EQ(schedule.windows_of_tokens(160), 3);
  EXPECT_EQ(schedule.windows_of_tokens(161), 4);
  EXPECT_EQ(schedule.tokens(2), 32);
  EXPECT_THROW((WindowSchedule{10, 4}.windows_of_tokens(1)), Error);
  const WindowSchedule none{3, 4, LastWindow::drop, 16};
  EXPECT_EQ(none.windows_of_tokens(5), 0);
  EXPECT_EQ(none.windows_of_epochs(5), 0);
}

}  // namespace
}  // namespace accrue::batch
