#include "train/window/window_leases.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "support/errors.h"
#include "train/ranks/ranks.h"

namespace accrue::train {
namespace {

using accrue::testing::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr batch::Range kWindow{1000, 1128};
/// The first window of a process, and those after which a speed is known.
constexpr int kEqualWindows = 1 + WindowLeases::kFewestWindows;

std::vector<RankRecord> records_of(const std::vector<std::int64_t>& micro_batches) {
  std::vector<RankRecord> records;
  for (const std::int64_t samples : micro_batches) records.push_back({.micro_batch = samples});
  return records;
}

/// Ranks that divide windows, each by its own knowledge, and take a given time per sample.
class Machines {
 public:
  Machines(std::vector<double> each, const std::vector<RankRecord>& records, bool by_speed = true)
      : seconds(std::move(each)) {
    for (std::size_t rank = 0; rank < records.size(); ++rank)
      ranks_.emplace_back(static_cast<std::int64_t>(rank), records, by_speed);
  }

  /// The seconds until the last rank is done.
  double run(batch::Range window = kWindow) {
    parts.clear();
    double last = 0;
    std::vector<accum::RankStatement> stated(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      parts.push_back(ranks_[rank].share(window));
      const double taken =
          static_cast<double>(parts.back().size()) * seconds[rank] * (1 + noise * normal_(random_));
      last = std::max(last, taken);
      stated[rank].figures = ranks_[rank].figures(taken);
    }
    expect_a_partition(window);
    if (ranks_[0].change()) changes.push_back(*ranks_[0].change());
    for (WindowLeases& rank : ranks_) rank.observe(stated);
    return last;
  }

  /// Sets the share of the time that each rank may work from now on, which it also does.
  void limit(const std::vector<double>& speeds) {
    for (WindowLeases& rank : ranks_) rank.limit(speeds);
  }

  double run_several(int windows, batch::Range window = kWindow) {
    for (; windows > 1; --windows) run(window);
    return run(window);
  }

  void observe(const std::vector<accum::RankStatement>& stated) {
    for (WindowLeases& rank : ranks_) rank.observe(stated);
  }

  const WindowLeases& first() const { return ranks_.front(); }

  std::vector<double> seconds;  ///< per sample, by rank
  double noise = 0;             ///< standard deviation, relative to `seconds`
  std::vector<batch::Range> parts;
  std::vector<std::string> changes;

 private:
  void expect_a_partition(batch::Range window) const {
    std::int64_t next = window.begin;
    for (const batch::Range& part : parts) {
      EXPECT_EQ(part.begin, next);
      EXPECT_GE(part.size(), 0);
      next = part.end;
    }
    EXPECT_EQ(next, window.end);
  }

  std::vector<WindowLeases> ranks_;
  std::mt19937_64 random_{11};
  std::normal_distribution<double> normal_{0, 1};
};

TEST(WindowLeases, SpeedsOfThreeToOneAreDoneTogether) {
  Machines machines({1, 3}, records_of({2, 2}));
  for (int window = 0; window < kEqualWindows; ++window) EXPECT_DOUBLE_EQ(machines.run(), 192);
  EXPECT_TRUE(machines.changes.empty());
  // 128 samples at 1 + 1/3 per second.
  EXPECT_DOUBLE_EQ(machines.run_several(20), 96);
  EXPECT_THAT(machines.changes,
              ElementsAre("64 micro-batches by rank 48 + 16: by measured speed, done in 96 s (as "
                          "many each: 192 s)"));
}

TEST(WindowLeases, EqualSharesWhereSpeedsAreNotToCount) {
  Machines machines({1, 3}, records_of({2, 2}), false);
  EXPECT_DOUBLE_EQ(machines.run_several(20), 192);
  EXPECT_TRUE(machines.changes.empty());
}

TEST(WindowLeases, RanksOfOneKindKeepEqualShares) {
  for (const std::size_t world : {2, 3, 8}) {
    Machines machines(std::vector<double>(world, 1),
                      records_of(std::vector<std::int64_t>(world, 1)));
    machines.noise = 0.03;
    machines.run_several(500);
    EXPECT_THAT(machines.changes, ::testing::IsEmpty()) << world << " ranks";
  }
}

TEST(WindowLeases, NoiseDoesNotMoveSharesBackAndForth) {
  Machines machines({1, 3}, records_of({2, 2}));
  machines.noise = 0.05;
  machines.run_several(500);
  EXPECT_GE(machines.changes.size(), 1U);
  EXPECT_LE(machines.changes.size(), 3U);
  EXPECT_NEAR(static_cast<double>(machines.parts[1].size()), 32, 4);
}

TEST(WindowLeases, FollowAMachineWhoseSpeedChanges) {
  Machines machines({1, 1}, records_of({2, 2}));
  EXPECT_DOUBLE_EQ(machines.run_several(20), 64);
  machines.seconds[1] = 3;
  EXPECT_DOUBLE_EQ(machines.run(), 192);
  EXPECT_DOUBLE_EQ(machines.run_several(5), 96);
  machines.seconds[1] = 1;
  EXPECT_DOUBLE_EQ(machines.run_several(6), 64);
  EXPECT_EQ(machines.changes.size(), 2U);
}

TEST(WindowLeases, ARankThatPausesHasNoShareAtOnceAndIsTakenInAgain) {
  Machines machines({1, 3, 1}, records_of({2, 2, 2}));
  machines.limit({1, 0, 1});
  EXPECT_DOUBLE_EQ(machines.run(), 64) << "also before speeds are known";
  EXPECT_EQ(machines.parts[1].size(), 0);
  machines.limit({1, 1, 1});
  machines.run_several(20);
  const std::int64_t slow = machines.parts[1].size();
  EXPECT_EQ(slow, 18) << "a seventh of 64 micro-batches";
  machines.limit({1, 0, 1});
  EXPECT_DOUBLE_EQ(machines.run_several(20), 64);
  EXPECT_EQ(machines.changes.back(),
            "64 micro-batches by rank 32 + 0 + 32: equal speeds as far as measured, done in 64 s "
            "(as many each: 64 s), rank 1 pauses");
  machines.limit({1, 1, 1});
  machines.run();
  EXPECT_EQ(machines.parts[1].size(), slow) << "its speed is not forgotten, nor thought better";
}

TEST(WindowLeases, ARankThatIsToBeSlowHasAsMuchLessAtOnce) {
  Machines machines({1, 1}, records_of({2, 2}));
  machines.run_several(10);
  machines.limit({1, 0.5});
  machines.run();
  EXPECT_THAT(machines.changes, ElementsAre(HasSubstr("by rank 43 + 21: by measured speed")));
  EXPECT_THAT(machines.changes.back(), ::testing::EndsWith(", rank 1 works 50% of the time"));
  machines.run_several(10);
  EXPECT_EQ(machines.parts[1].size(), 42) << "what is measured is its work without its rest";
  machines.limit({1, 1});
  EXPECT_DOUBLE_EQ(machines.run(), 64);
  machines.limit({0.5, 0.5});
  EXPECT_DOUBLE_EQ(machines.run_several(3), 64) << "all alike change nothing";
}

TEST(WindowLeases, MicroBatchesAreThoseOfTheUndividedWindow) {
  Machines machines({1, 1.7, 0.4}, records_of({4, 4, 4}));
  const batch::Range window{100, 203};
  machines.run_several(10, window);
  EXPECT_EQ(machines.changes.size(), 1U);
  for (const batch::Range& part : machines.parts) EXPECT_EQ((part.begin - window.begin) % 4, 0);
}

TEST(WindowLeases, OwnMicroBatchesAreGrainsOfShares) {
  Machines machines({1, 3}, records_of({8, 3}));
  const double seconds = machines.run_several(10);
  // The last micro-batch of the window, which is rank 1's, may be short.
  EXPECT_EQ(machines.parts[0].size() % 8, 0);
  EXPECT_LE(seconds, 96 + 3 * 3) << "within a micro-batch of the slowest of the ideal";
  EXPECT_THAT(machines.changes, ElementsAre(HasSubstr("128 samples by rank ")));
}

TEST(WindowLeases, ShareMayBeEmpty) {
  Machines machines({1, 1, 1}, records_of({4, 4, 4}));
  machines.run_several(20, {0, 7});
  EXPECT_EQ(machines.parts[2].size(), 0);
}

TEST(WindowLeases, GoOnWithTheSpeedsOfACheckpoint) {
  Machines before({1, 3}, records_of({2, 2}));
  before.run_several(10);
  const std::vector<RankRecord> kept = before.first().records();
  Machines again({1, 3}, records_for(2, kept));
  EXPECT_DOUBLE_EQ(again.run(), 96);
  EXPECT_EQ(again.changes.size(), 1U) << "which is said once more";
  Machines more({1, 3, 3}, records_for(3, kept));
  more.run();
  EXPECT_EQ(more.parts[0].size(), 44) << "of another world nothing is known";
}

/// Groups that last for two windows each; all ranks continue in the next one.
TEST(WindowLeases, SpeedsAreLearnedInWindowsOfSeveralGroups) {
  std::vector<RankRecord> records = records_of({2, 2});
  for (int group = 0; group < 3; ++group) {
    Machines machines({1, 3}, records);
    machines.run_several(2);
    records = machines.first().records();
  }
  EXPECT_EQ(records[0].seconds_per_sample.size(), 5U) << "all but the very first";
  EXPECT_DOUBLE_EQ(Machines({1, 3}, records).run(), 96);
}

/// The rest of a window that another group began is not divided by shares.
TEST(WindowLeases, NothingIsLearnedOfAWindowWithoutShares) {
  Machines machines({1, 3}, records_of({2, 2}));
  machines.observe(std::vector<accum::RankStatement>(2, {.figures = {0, 5}}));
  machines.run();
  EXPECT_TRUE(machines.first().records()[0].seconds_per_sample.empty()) << "its first window";
  machines.run();
  EXPECT_EQ(machines.first().records()[0].seconds_per_sample.size(), 1U);
}

TEST(WindowLeases, RanksThatDivideDifferentlyAreNoticed) {
  WindowLeases rank(0, records_of({2, 2}), true);
  rank.share(kWindow);
  EXPECT_THAT(
      error_of(
          [&] {
            rank.observe({{.figures = {64, 1}}, {.figures = {62, 1}}});
          },
          Error::Kind::runtime),
      HasSubstr("parts that make up its 128 samples, received 62 in place of 64 on rank 1"));
  rank.observe({{.figures = {64, 1}}, {.figures = {64, 1}}});
}

TEST(RankRecords, OfAnotherWorldAreWhatFittedOnAll) {
  const std::vector<RankRecord> kept{{8, Recompute::none, {0.5}}, {4, Recompute::full, {2}}};
  EXPECT_EQ(records_for(2, kept), kept);
  EXPECT_THAT(records_for(1, kept), ElementsAre(RankRecord{4, Recompute::full}));
  EXPECT_EQ(records_for(3, kept), std::vector(3, RankRecord{4, Recompute::full}));
  EXPECT_TRUE(have_one_size(records_for(3, kept)));
  EXPECT_EQ(records_for(2, kept, true), std::vector(2, RankRecord{4, Recompute::full}));
  EXPECT_FALSE(have_one_size(kept));
}

}  // namespace
}  // namespace accrue::train
