#include "train/ranks/merged_middle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "support/errors.h"

namespace accrue::train {
namespace {

using accrue::testing::error_of;
using batch::Range;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

LedgerEntry entry_of(Range range, double weight) {
  LedgerEntry entry{.micro = {.weight = weight}, .status = MicroStatus::committed, .loss_sum = 7};
  entry.micro.sample_ids.resize(static_cast<std::size_t>(range.size()));
  std::iota(entry.micro.sample_ids.begin(), entry.micro.sample_ids.end(), range.begin);
  return entry;
}

/// The middle reported by a rank that has done the first `done` of its micro-batches.
WindowMiddle middle_of(const std::vector<Range>& micro_batches, int done, double weight = 2.5) {
  WindowMiddle middle{.window = 9,
                      .micro_batches = micro_batches,
                      .done = {},
                      .contributions = {{"a", 3}},
                      .units = {-40},
                      .noise_sums = {1, 0.5}};
  for (int i = 0; i < done; ++i) {
    LedgerEntry entry = entry_of(micro_batches[static_cast<std::size_t>(i)], weight);
    entry.micro.index = i;
    middle.append(std::move(entry));
  }
  middle.tokens = 10 * done;
  middle.seconds = done;
  return middle;
}

WindowMiddle told(const WindowMiddle& middle, std::size_t rank = 0) {
  return middle_from_text(to_text(middle), 9, rank);
}

/// Two ranks; the second one has left out a sample and quarantined a micro-batch.
std::vector<WindowMiddle> two_ranks() {
  WindowMiddle second = middle_of({{16, 18}, {18, 20}, {20, 21}}, 1);
  LedgerEntry bad = entry_of({18, 20}, 0);
  bad.status = MicroStatus::quarantined;
  bad.reason = "its loss is not finite";
  bad.micro.sample_ids = {19};
  second.append(std::move(bad));
  second.unreadable = {{.sample_id = 18, .reason = "cut short"}};
  return {told(middle_of({{10, 12}, {12, 14}, {14, 16}}, 2)), told(second, 1)};
}

TEST(MergedMiddle, IsThatOfOneProcess) {
  const WindowMiddle all = merge_middles({10, 21}, two_ranks(), {5, 2.5});
  EXPECT_THAT(all.micro_batches, ElementsAre(Range{10, 12}, Range{12, 14}, Range{16, 18},
                                             Range{18, 20}, Range{14, 16}, Range{20, 21}));
  ASSERT_EQ(all.in_words(), "4 of 6 micro-batches");
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(all.entry_of(i).micro.index, static_cast<std::int64_t>(i));
  EXPECT_THAT(all.entry_of(2).micro.sample_ids, ElementsAre(16, 17));
  EXPECT_THAT(all.entry_of(3).micro.sample_ids, ElementsAre(19));
  EXPECT_EQ(all.entry_of(3).status, MicroStatus::quarantined);
  EXPECT_EQ(all.tokens, 30);
  EXPECT_EQ(all.seconds, 2) << "they ran side by side";
  EXPECT_EQ(all.contributions.at("a"), 3) << "each rank has the sums of all";
  EXPECT_THAT(all.noise_sums, ElementsAre(2, 1));
  EXPECT_EQ(all.unreadable.at(0).sample_id, 18);
}

TEST(MergedMiddle, HasRanksThatAreDoneOrHaveNothingToDo) {
  const WindowMiddle all =
      merge_middles({0, 6},
                    {told(middle_of({{0, 2}, {2, 4}}, 2)), told(middle_of({}, 0), 1),
                     told(middle_of({{4, 6}}, 0), 2)},
                    {5, 0, 0});
  EXPECT_EQ(all.in_words(), "2 of 3 micro-batches");
}

/// A window that is divided among ranks at random, each of which has done some.
TEST(MergedMiddle, OfAnyRanksHasEachSampleOnce) {
  std::mt19937 random(5);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution(from, to)(random);
  };
  for (int trial = 0; trial < 1000; ++trial) {
    const std::int64_t begin = draw(0, 40);
    const Range window{begin, begin + draw(1, 60)};
    std::vector<std::vector<Range>> parts(static_cast<std::size_t>(draw(1, 6)));
    for (std::int64_t at = window.begin; at < window.end;) {
      const Range piece{at, std::min<std::int64_t>(window.end, at + draw(1, 4))};
      parts[static_cast<std::size_t>(draw(0, static_cast<int>(parts.size()) - 1))].push_back(piece);
      at = piece.end;
    }
    std::vector<WindowMiddle> ranks;
    std::vector<double> weights;
    std::size_t done = 0;
    double expected = 0, found = 0;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      std::ranges::shuffle(parts[rank], random);
      const int of_rank = draw(0, static_cast<int>(parts[rank].size()));
      const double weight = draw(1, 1000) / 7.0;
      ranks.push_back(told(middle_of(parts[rank], of_rank, weight), rank));
      weights.push_back(0);
      for (int i = 0; i < of_rank; ++i) weights.back() += weight;
      done += static_cast<std::size_t>(of_rank);
      expected += weights.back();
    }
    const WindowMiddle all = merge_middles(window, ranks, weights);
    ASSERT_EQ(all.done.size(), done);
    for (std::size_t i = 0; i < done; ++i) {
      const LedgerEntry entry = all.entry_of(i);
      ASSERT_EQ(std::ssize(entry.micro.sample_ids), all.micro_batches[i].size());
      ASSERT_EQ(entry.micro.sample_ids.front(), all.micro_batches[i].begin);
      found += entry.micro.weight;
    }
    ASSERT_NEAR(found, expected, 1e-9 * (1 + expected));
    std::vector<Range> sorted = all.micro_batches;
    std::ranges::sort(sorted, {}, &Range::begin);
    ASSERT_EQ(sorted.front().begin, window.begin);
    ASSERT_EQ(sorted.back().end, window.end);
    for (std::size_t i = 1; i < sorted.size(); ++i) ASSERT_EQ(sorted[i].begin, sorted[i - 1].end);
  }
}

TEST(MergedMiddle, IsRefusedByTheRankThatContradictsTheOthers) {
  const auto refused = [](const std::function<void(std::vector<WindowMiddle>&)>& change,
                          const char* expected) {
    std::vector<WindowMiddle> ranks = two_ranks();
    change(ranks);
    EXPECT_THAT(error_of(
                    [&] {
                      merge_middles({10, 21}, ranks, {5, 2.5});
                    },
                    Error::Kind::runtime),
                AllOf(HasSubstr(expected), HasSubstr("on rank 1")));
  };
  refused([](auto& ranks) { ranks[1].micro_batches[0] = {14, 18}; }, "samples 14 to 18");
  refused([](auto& ranks) { ranks[1].micro_batches[0] = {10, 12}; }, "samples 10 to 12");
  refused([](auto& ranks) { ranks[1].micro_batches[2] = {20, 22}; }, "samples 20 to 22");
  refused([](auto& ranks) { ranks[1].micro_batches[1] = {19, 20}; }, "behind a gap");
  refused([](auto& ranks) { ranks[1].micro_batches.pop_back(); }, "up to 20 alone");
  refused([](auto& ranks) { ranks[1].done[0].entry.micro.weight = 2; }, "weigh 2.500000");
  refused([](auto& ranks) { ranks[1].done.pop_back(), ranks[1].done.pop_back(); }, "0.000000");
  refused([](auto& ranks) { ranks[1].contributions["a"] = 2; }, "the contributions");
  refused([](auto& ranks) { ranks[1].units = {-39}; }, "the fixed-point units");
  refused([](auto& ranks) { ranks[1].loss_scale = 2; }, "the loss scale");
  refused([](auto& ranks) { ranks[1].noise_sums.clear(); }, "the sums of noise");
}

TEST(MergedMiddle, IsToldInTextsThatAreLookedAt) {
  const std::string good = to_text(middle_of({{0, 2}, {2, 4}}, 2));
  std::string more = good;
  more.replace(more.find("\"sizes\":[2,2]"), 13, "\"sizes\":[2]");
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{}"), more})
    EXPECT_THAT(error_of([&] { middle_from_text(text, 9, 3); }, Error::Kind::runtime),
                HasSubstr("on rank 3"))
        << text;
  EXPECT_THAT(error_of([&] { middle_from_text(good, 8, 3); }, Error::Kind::runtime),
              HasSubstr("on rank 3"));
}

}  // namespace
}  // namespace accrue::train
