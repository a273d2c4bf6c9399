#include "batch/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <string>

#include "accrue/core/error.h"

namespace accrue::batch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// One row is one way to state a batch: everything else must follow from it.
struct Arithmetic {
  const char* name;
  std::int64_t batch_samples;
  std::int64_t micro;
  std::int64_t world;
  std::int64_t samples_per_epoch;
  std::vector<std::int64_t> micro_batches_per_rank;
  std::int64_t last_micro;
  std::int64_t steps_per_epoch;
};

class BatchArithmetic : public ::testing::TestWithParam<Arithmetic> {};

TEST_P(BatchArithmetic, Holds) {
  const Arithmetic& row = GetParam();
  const WindowSchedule schedule{row.samples_per_epoch, row.batch_samples};
  const auto parts = split(schedule.window(0), row.micro);
  const auto shares = micro_batches_per_rank(row.batch_samples, row.micro, row.world);

  EXPECT_EQ(shares, row.micro_batches_per_rank);
  EXPECT_EQ(std::ssize(parts), std::accumulate(shares.begin(), shares.end(), std::int64_t{0}));
  EXPECT_EQ(parts.back().size(), row.last_micro);
  EXPECT_EQ(schedule.windows_per_epoch(), row.steps_per_epoch);
  std::int64_t samples = 0;
  for (const Range& part : parts) samples += part.size();
  EXPECT_EQ(samples, row.batch_samples);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BatchArithmetic,
    ::testing::Values(
        Arithmetic{"eight_times_four_is_32", 32, 8, 1, 32, {4}, 8, 1},
        Arithmetic{"64_by_16_is_4_micro_batches", 64, 16, 1, 640, {4}, 16, 10},
        Arithmetic{"128_by_8_is_16_steps", 8, 8, 1, 128, {1}, 8, 16},
        Arithmetic{
            "half_a_million_tokens", samples_of_tokens(524'288, 2048), 4, 1, 256, {64}, 4, 1},
        Arithmetic{"over_ranks", 256, 4, 8, 256, {8, 8, 8, 8, 8, 8, 8, 8}, 4, 1},
        Arithmetic{"ranks_with_a_remainder", 40, 4, 4, 40, {3, 3, 2, 2}, 4, 1},
        Arithmetic{"a_short_last_micro_batch", 10, 4, 1, 10, {3}, 2, 1},
        Arithmetic{"short_and_over_ranks", 10, 4, 2, 10, {2, 1}, 2, 1},
        Arithmetic{"more_ranks_than_micro_batches", 8, 4, 3, 8, {1, 1, 0}, 4, 1},
        Arithmetic{"micro_above_batch", 3, 8, 1, 9, {1}, 3, 3},
        Arithmetic{"a_short_last_step", 8, 8, 1, 130, {1}, 8, 17}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(SamplesOfTokens, CountsContexts) {
  EXPECT_EQ(samples_of_tokens(524'288, 2048), 256);
  EXPECT_EQ(samples_of_tokens(16'384, 128), 128);
  EXPECT_EQ(samples_of_tokens(128, 128), 1);
}

std::string refusal(std::int64_t tokens, std::int64_t context) {
  try {
    samples_of_tokens(tokens, context);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  ADD_FAILURE() << tokens << " of " << context << " was taken";
  return "";
}

TEST(SamplesOfTokens, NamesBothNeighbours) {
  const std::string message = refusal(1000, 256);
  EXPECT_THAT(message, HasSubstr("batch.tokens"));
  EXPECT_THAT(message, HasSubstr("received 1000"));
  EXPECT_THAT(message, HasSubstr("768 (3 samples) or 1024 (4 samples)"));
}

TEST(SamplesOfTokens, NamesTheSmallestBatchWhereNoneFits) {
  for (const std::int64_t tokens : {100, 0, -256}) {
    EXPECT_THAT(refusal(tokens, 256), HasSubstr("try 256 (1 sample)")) << tokens;
    EXPECT_THAT(refusal(tokens, 256), Not(HasSubstr(" or "))) << tokens;
  }
}

TEST(SamplesOfTokens, DoesNotOverflow) {
  EXPECT_THAT(refusal(std::numeric_limits<std::int64_t>::max(), 256), Not(HasSubstr(" or ")));
  EXPECT_THROW(samples_of_tokens(256, 0), Error);
}

TEST(WindowSchedule, KeepsAShortLastWindowOfEachEpoch) {
  const WindowSchedule schedule{10, 4, LastWindow::weighted};
  EXPECT_EQ(schedule.windows_per_epoch(), 3);
  EXPECT_EQ(schedule.window(0), (Range{0, 4}));
  EXPECT_EQ(schedule.window(1), (Range{4, 8}));
  EXPECT_EQ(schedule.window(2), (Range{8, 10}));
  EXPECT_EQ(schedule.window(3), (Range{10, 14}));
  EXPECT_EQ(schedule.window(5), (Range{18, 20}));
  EXPECT_DOUBLE_EQ(schedule.epoch_at(2), 0.8);
  EXPECT_DOUBLE_EQ(schedule.epoch_at(3), 1);
  EXPECT_DOUBLE_EQ(schedule.epoch_at(4), 1.4);
}

TEST(WindowSchedule, DropsAShortLastWindowWhereAsked) {
  const WindowSchedule schedule{10, 4, LastWindow::drop};
  EXPECT_EQ(schedule.windows_per_epoch(), 2);
  EXPECT_EQ(schedule.window(1), (Range{4, 8}));
  EXPECT_EQ(schedule.window(2), (Range{10, 14}));
  EXPECT_DOUBLE_EQ(schedule.epoch_at(2), 1);
}

TEST(WindowSchedule, TakesEverySampleOfAnEpochOnceUnlessDropped) {
  for (std::int64_t epoch = 1; epoch <= 20; ++epoch) {
    for (std::int64_t window = 1; window <= 25; ++window) {
      const WindowSchedule schedule{epoch, window};
      std::int64_t expected_begin = 0;
      for (std::int64_t i = 0; i < 3 * schedule.windows_per_epoch(); ++i) {
        const Range range = schedule.window(i);
        EXPECT_EQ(range.begin, expected_begin);
        EXPECT_EQ(range.begin / epoch, (range.end - 1) / epoch) << "crosses an epoch's end";
        expected_begin = range.end;
      }
      EXPECT_EQ(expected_begin, 3 * epoch);
    }
  }
}

TEST(WindowSchedule, HasNoWindowWhereEveryOneIsDropped) {
  const WindowSchedule schedule{3, 4, LastWindow::drop};
  EXPECT_EQ(schedule.windows_per_epoch(), 0);
  EXPECT_EQ(schedule.window(0).size(), 0);
  EXPECT_EQ(schedule.epoch_at(7), 0);
}

TEST(WindowSchedule, RefusesWhatIsNoSchedule) {
  EXPECT_THROW((WindowSchedule{0, 4}.windows_per_epoch()), Error);
  EXPECT_THROW((WindowSchedule{4, 0}.window(0)), Error);
  EXPECT_THROW((WindowSchedule{4, 4}.window(-1)), Error);
}

TEST(Split, CoversTheWindowInOrder) {
  EXPECT_THAT(split({3, 13}, 4), ElementsAre(Range{3, 7}, Range{7, 11}, Range{11, 13}));
  EXPECT_TRUE(split({5, 5}, 4).empty());
  const std::vector<Range> with_a_gap{{0, 3}, {3, 4}, {6, 11}};
  EXPECT_THAT(split_again(with_a_gap, 3),
              ElementsAre(Range{0, 3}, Range{3, 4}, Range{6, 9}, Range{9, 11}));
  EXPECT_TRUE(split_again({}, 3).empty());
  EXPECT_THROW(split({0, 4}, 0), Error);
}

TEST(MicroBatchesPerRank, RefusesWhatIsNoShare) {
  EXPECT_THROW(micro_batches_per_rank(8, 0, 1), Error);
  EXPECT_THROW(micro_batches_per_rank(8, 4, 0), Error);
  EXPECT_THROW(micro_batches_per_rank(-1, 4, 1), Error);
}

}  // namespace
}  // namespace accrue::batch
