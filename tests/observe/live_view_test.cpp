#include "observe/live_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/styled_text.h"

namespace accrue::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A run of two ranks in the middle of a long step, with everything that can be shown.
LiveStatus full_status() {
  LiveStatus status{
      .position = "120/200",
      .done = 0.6,
      .seconds_left = 200,
      .loss = 2.3415,
      .eval_loss = 2.25,
      .rate = "12.3 k tokens/s",
      .step_seconds = 2.5,
      .micro_batch = "5/8",
      .batch = "8 samples x 4 accumulation steps x 2 ranks = 64 samples, 16,384 tokens",
      .batch_in_short = "8 x 4 x 2 = 64 samples",
      .peak_bytes = std::int64_t{512} << 20,
      .budget_bytes = std::int64_t{2} << 30,
      .rank_samples = {36, 28}};
  for (int i = 8; i > 0; --i) status.losses.add(i);
  return status;
}

TEST(LiveView, ShowsAllOfItAt80Columns) {
  EXPECT_THAT(
      live_view(full_status(), {.utf8 = true}),
      ElementsAre("",
                  "step    120/200  left 3m20s  60%    "
                  "████████████████████████░░░░░░░░░░░░░░░░",
                  "loss    2.3415  eval 2.2500         "
                  "█▇▆▅▄▃▂▁",
                  "speed   12.3 k tokens/s  2.5 s a step  micro-batch 5/8",
                  "memory  512 MiB of 2.00 GiB  25%    "
                  "██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░",
                  "batch   8 samples x 4 accumulation steps x 2 ranks = 64 samples, 16,384 tokens",
                  "ranks   36 + 28 samples"));
}

TEST(LiveView, HasMarksOfAsciiWhereTheLocaleHasNoOthers) {
  const auto lines = live_view(full_status(), {});
  for (const std::string& line : lines)
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
  EXPECT_THAT(lines[1], HasSubstr("####...."));
  EXPECT_THAT(lines[2], HasSubstr("#"));
}

TEST(LiveView, IsFittedTo40Columns) {
  EXPECT_THAT(
      live_view(full_status(), {.columns = 40, .utf8 = true}),
      ElementsAre("", "step    120/200  left 3m20s  60%", "loss    2.3415  eval 2.2500  █▇▆▅▄▃▂▁",
                  "speed   12.3 k tokens/s  2.5 s a step", "memory  512 MiB of 2.00 GiB  25%",
                  "batch   8 x 4 x 2 = 64 samples", "ranks   36 + 28 samples"));
}

TEST(LiveView, NeverIsLargerThanItsCanvas) {
  for (int columns = 1; columns < 200; columns += columns < 50 ? 1 : 7)
    for (int rows = 1; rows < 12; ++rows) {
      const auto lines = live_view(full_status(), {.columns = columns, .rows = rows, .utf8 = true});
      EXPECT_LE(static_cast<int>(lines.size()), std::max(rows - 1, 1));
      ASSERT_FALSE(lines.empty());
      for (const std::string& line : lines)
        EXPECT_LE(columns_of(line), std::max(columns - 1, 1)) << columns;
    }
}

TEST(LiveView, LeavesOutTheLastLinesOfALowTerminal) {
  EXPECT_EQ(live_view(full_status(), {.rows = 8}).size(), 7U);
  EXPECT_EQ(live_view(full_status(), {.rows = 8}).front(), "");
  const auto low = live_view(full_status(), {.rows = 4});
  ASSERT_EQ(low.size(), 3U);
  EXPECT_THAT(low[0], HasSubstr("step"));
  EXPECT_THAT(low[2], HasSubstr("speed"));
  EXPECT_THAT(live_view(full_status(), {.rows = 1}), ElementsAre(HasSubstr("step")));
}

TEST(LiveView, LeavesOutWhatIsNotKnown) {
  EXPECT_THAT(live_view({.position = "0/200"}, {.columns = 20}),
              ElementsAre("", "step    0/200  0%"));
  LiveStatus status = full_status();
  status.budget_bytes.reset();
  status.rank_samples = {64};
  const auto lines = live_view(status, {});
  EXPECT_THAT(lines, ::testing::Contains("memory  512 MiB"));
  EXPECT_THAT(lines, Not(::testing::Contains(HasSubstr("ranks  "))));
}

TEST(LiveView, ColoursWhatNeedsAttentionWhereItMay) {
  const auto memory = [](double part, bool colours) {
    LiveStatus status{.position = "1/2", .peak_bytes = static_cast<std::int64_t>(part * 1000)};
    status.budget_bytes = 1000;
    return live_view(status, {.colours = colours}).back();
  };
  EXPECT_THAT(memory(0.5, true), HasSubstr("\x1b[32m"));
  EXPECT_THAT(memory(0.95, true), HasSubstr("\x1b[33m"));
  EXPECT_THAT(memory(0.99, true), HasSubstr("\x1b[31m"));
  EXPECT_THAT(memory(0.99, false), Not(HasSubstr("\x1b")));
}

TEST(LiveView, NamesTheExtremesOfManyRanks) {
  LiveStatus status{.position = "1/2"};
  for (int rank = 0; rank < 64; ++rank) status.rank_samples.push_back(12 + rank % 9);
  EXPECT_EQ(live_view(status, {}).back(), "ranks   64, with 12 to 20 samples each");
}

}  // namespace
}  // namespace accrue::observe
