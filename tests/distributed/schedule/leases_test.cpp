#include "distributed/schedule/leases.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "support/errors.h"

namespace accrue::distributed {
namespace {

using accrue::testing::usage_message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Worker> workers_of(const std::vector<double>& seconds) {
  std::vector<Worker> workers;
  for (const double each : seconds)
    workers.push_back({.rank = static_cast<std::int64_t>(workers.size()), .pace = {each}});
  return workers;
}

std::vector<std::int64_t> counts(const Division& division) {
  std::vector<std::int64_t> result;
  for (const Lease& lease : division.leases) result.push_back(lease.count);
  return result;
}

/// The time until the last rank is done, from the definition.
double makespan(const std::vector<std::int64_t>& counts, const std::vector<double>& seconds) {
  double last = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    last = std::max(last, static_cast<double>(counts[i]) * seconds[i]);
  return last;
}

/// The best of all divisions, by trying them.
double best_makespan(std::int64_t units, const std::vector<double>& seconds,
                     std::vector<std::int64_t> counts = {}) {
  if (counts.size() + 1 == seconds.size()) {
    counts.push_back(units);
    return makespan(counts, seconds);
  }
  double best = std::numeric_limits<double>::infinity();
  counts.push_back(0);
  for (; counts.back() <= units; ++counts.back())
    best = std::min(best, best_makespan(units - counts.back(), seconds, counts));
  return best;
}

void expect_a_partition(const Division& division, std::int64_t units) {
  std::int64_t next = 0;
  for (const Lease& lease : division.leases) {
    EXPECT_EQ(lease.begin, next);
    EXPECT_GE(lease.count, 0);
    next += lease.count;
  }
  EXPECT_EQ(next, units);
}

struct Draw {
  std::mt19937_64 random{5};
  std::int64_t integer(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  }
  std::vector<double> paces(std::int64_t ranks) {
    std::vector<double> seconds;
    for (; ranks > 0; --ranks)
      seconds.push_back(std::exp(std::uniform_real_distribution<double>(-1.5, 1.5)(random)));
    return seconds;
  }
};

TEST(Divide, SpeedsOfThreeToOneGetThreeTimesTheWork) {
  const Division division = divide(64, workers_of({1, 3}));
  EXPECT_THAT(counts(division), ElementsAre(48, 16));
  EXPECT_DOUBLE_EQ(division.seconds, 48);
  EXPECT_DOUBLE_EQ(division.equal_seconds, 96);
  EXPECT_EQ(division.reason, "48 + 16: by measured speed, done in 48 s (as many each: 96 s)");
}

TEST(Divide, NoiseOfTheMeasurementCostsLessThanFivePercent) {
  Draw draw;
  std::normal_distribution<double> noise(0, 0.05);
  for (int trial = 0; trial < 200; ++trial) {
    PaceEstimate fast, slow;
    for (int window = 0; window < 9; ++window) {
      fast.observe(16, 16 * (1 + noise(draw.random)));
      slow.observe(16, 48 * (1 + noise(draw.random)));
    }
    const Division division =
        divide(64, {{.rank = 0, .pace = fast.pace()}, {.rank = 1, .pace = slow.pace()}});
    // One micro-batch of the slow rank more or less is 6% of the ideal 48 s.
    EXPECT_LE(makespan(counts(division), {1, 3}), 51);
  }
}

TEST(Divide, NothingKnownIsAnEqualDivision) {
  const Division division = divide(10, workers_of({0, 0, 0}));
  EXPECT_THAT(counts(division), ElementsAre(4, 3, 3));
  EXPECT_EQ(division.seconds, 0);
  EXPECT_EQ(division.reason, "4 + 3 + 3: equal shares, as no speed is known yet");
}

TEST(Divide, AnUnknownSpeedIsTheMiddleOne) {
  EXPECT_EQ(counts(divide(60, workers_of({1, 0, 2, 4}))),
            counts(divide(60, workers_of({1, 2, 2, 4}))));
}

TEST(Divide, DifferencesWithinTheErrorMakeNone) {
  std::vector<Worker> workers = workers_of({1.0, 1.05, 0.97});
  EXPECT_NE(counts(divide(300, workers)), (std::vector<std::int64_t>{100, 100, 100}));
  for (Worker& worker : workers) worker.pace.error = 0.03;
  const Division division = divide(300, workers);
  EXPECT_THAT(counts(division), ElementsAre(100, 100, 100));
  EXPECT_THAT(division.reason, HasSubstr("equal speeds as far as measured"));
}

TEST(Divide, IsOptimal) {
  Draw draw;
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t ranks = draw.integer(1, 4), units = draw.integer(0, 12);
    const std::vector<double> seconds = draw.paces(ranks);
    const Division division = divide(units, workers_of(seconds));
    expect_a_partition(division, units);
    const double taken = makespan(counts(division), seconds);
    EXPECT_DOUBLE_EQ(taken, division.seconds);
    EXPECT_LE(taken, best_makespan(units, seconds) * (1 + 1e-12));
  }
}

TEST(Divide, WithGrainsEndsWithinAMicroBatchOfTheIdeal) {
  Draw draw;
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t ranks = draw.integer(1, 9), units = draw.integer(0, 2000);
    const std::vector<double> seconds = draw.paces(ranks);
    std::vector<Worker> workers = workers_of(seconds);
    double longest = 0, units_per_second = 0;
    for (Worker& worker : workers) {
      worker.grain = draw.integer(1, 32);
      longest = std::max(longest, static_cast<double>(worker.grain) * worker.pace.seconds);
      units_per_second += 1 / worker.pace.seconds;
    }
    const Division division = divide(units, workers);
    expect_a_partition(division, units);
    EXPECT_LE(division.seconds, static_cast<double>(units) / units_per_second + longest);
    std::int64_t ragged = 0;
    for (std::size_t i = 0; i < workers.size(); ++i)
      ragged += division.leases[i].count % workers[i].grain != 0;
    EXPECT_LE(ragged, 1) << "only the last grain is short";
  }
}

/// Grain by grain, from the description of divide().
std::vector<std::int64_t> counts_in_words(std::int64_t units, const std::vector<Worker>& workers) {
  std::vector<std::int64_t> counts(workers.size(), 0);
  const auto end = [&](std::size_t rank) {
    const std::int64_t grain = std::min(workers[rank].grain, units);
    return static_cast<double>(counts[rank] + grain) * workers[rank].pace.seconds;
  };
  while (units > 0) {
    std::size_t first = 0;
    for (std::size_t rank = 1; rank < workers.size(); ++rank)
      if (end(rank) < end(first)) first = rank;
    const std::int64_t grain = std::min(workers[first].grain, units);
    counts[first] += grain;
    units -= grain;
  }
  return counts;
}

TEST(Divide, GivesEachGrainToWhoIsDoneWithItFirst) {
  Draw draw;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Worker> workers = workers_of(draw.paces(draw.integer(1, 9)));
    for (Worker& worker : workers) {
      worker.grain = draw.integer(1, 12);
      // Equal paces make ties, which the lowest rank gets.
      if (draw.integer(0, 2) == 0) worker.pace.seconds = 1;
    }
    const std::int64_t units = draw.integer(0, 400);
    EXPECT_EQ(counts(divide(units, workers)), counts_in_words(units, workers));
  }
}

TEST(Divide, DoesNotDependOnTheOrderOfReports) {
  Draw draw;
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<Worker> workers = workers_of(draw.paces(draw.integer(2, 8)));
    for (Worker& worker : workers)
      worker = {worker.rank, {std::round(worker.pace.seconds), 0.1}, draw.integer(1, 3)};
    const Division division = divide(57, workers);
    std::ranges::shuffle(workers, draw.random);
    const Division again = divide(57, workers);
    EXPECT_EQ(again.leases, division.leases);
    EXPECT_EQ(again.reason, division.reason);
  }
}

TEST(Divide, AFasterRankNeverGetsLess) {
  Draw draw;
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<Worker> workers = workers_of(draw.paces(draw.integer(2, 6)));
    for (Worker& worker : workers)
      worker.pace.error = 0.01 * static_cast<double>(draw.integer(0, 20));
    const auto changed =
        static_cast<std::size_t>(draw.integer(0, static_cast<std::int64_t>(workers.size()) - 1));
    const std::int64_t units = draw.integer(1, 100);
    const std::int64_t before = divide(units, workers).leases[changed].count;
    workers[changed].pace.seconds *= 0.5 + 0.05 * static_cast<double>(draw.integer(0, 9));
    EXPECT_GE(divide(units, workers).leases[changed].count, before);
  }
}

TEST(Divide, LeavesOutARankThatTakesNoPart) {
  for (const double known : {0.0, 1.0}) {
    std::vector<Worker> workers = workers_of({known, known, known});
    workers[1].takes_part = false;
    EXPECT_THAT(counts(divide(11, workers)), ElementsAre(6, 0, 5));
    expect_a_partition(divide(11, workers), 11);
  }
  std::vector<Worker> workers = workers_of({1, 3, 0.001});
  workers[2].takes_part = false;
  EXPECT_THAT(counts(divide(64, workers)), ElementsAre(48, 16, 0));
  EXPECT_EQ(divide(64, workers).equal_seconds, 96) << "as many each of those that take part";
}

TEST(Divide, RefusesWhatIsNoWork) {
  EXPECT_THAT(usage_message([] { divide(1, {{.rank = 0, .takes_part = false}}); }),
              HasSubstr("at least one rank that works"));
  EXPECT_THAT(usage_message([] { divide(1, {}); }), HasSubstr("at least one rank"));
  EXPECT_THAT(usage_message([] {
                divide(1, {{.rank = 2}, {.rank = 2}});
              }),
              HasSubstr("rank 2 twice"));
  EXPECT_THAT(usage_message([] { divide(1, {{.rank = 0, .grain = 0}}); }), HasSubstr("grain"));
  EXPECT_THAT(usage_message([] { divide(1, {{.rank = 0, .pace = {std::nan("")}}}); }),
              HasSubstr("nan of rank 0"));
  EXPECT_THAT(usage_message([] { divide(-1, {{.rank = 0}}); }), HasSubstr("0 units or more"));
}

// Leases of a ledger.

std::vector<LedgerEntry> ledger_of(std::int64_t micro_batches) {
  std::vector<LedgerEntry> entries(static_cast<std::size_t>(micro_batches));
  for (std::size_t i = 0; i < entries.size(); ++i)
    entries[i].micro.index = static_cast<std::int64_t>(i);
  return entries;
}

TEST(Decide, LeasesWhatIsLeftOfAWindow) {
  std::vector<LedgerEntry> entries = ledger_of(8);
  entries[0].status = MicroStatus::committed;
  entries[2].status = MicroStatus::lost;
  entries[5].status = MicroStatus::quarantined;
  const Leases leases = decide({.entries = entries}, workers_of({1, 2}), 100, {{0, 1, 99.5}});
  EXPECT_THAT(leases.micro_batches, ElementsAre(2, 3, 4, 6, 7));
  EXPECT_THAT(leases.of(0), ElementsAre(2, 3, 4));
  EXPECT_THAT(leases.of(1), ElementsAre(6, 7));
  EXPECT_TRUE(leases.of(7).empty());
  EXPECT_DOUBLE_EQ(leases.division.seconds, 4) << "rank 0 is free in 0.5 s and done in 3.5";
}

TEST(Decide, ARankThatIsLateIsTakenToBeThatSlow) {
  const std::vector<LedgerEntry> entries = ledger_of(9);
  const LedgerView ledger{.entries = entries};
  const auto leased = [&](double now) {
    return decide(ledger, workers_of({1, 1}), now, {{1, 0, 0}}).of(1).size();
  };
  EXPECT_EQ(leased(0), 3U) << "of 8, besides the one that it works on";
  EXPECT_EQ(leased(1), 4U) << "it is about to be free";
  EXPECT_EQ(leased(7), 1U);
  EXPECT_EQ(leased(100), 0U);
}

/// Ranks that take micro-batches from their leases until a rank is lost, whose micro-batches are
/// leased again. Returns how often each was committed.
std::vector<int> run_with_loss(std::int64_t micro_batches, std::vector<Worker> workers,
                               std::size_t until_lost) {
  std::vector<LedgerEntry> entries = ledger_of(micro_batches);
  std::vector<int> committed(entries.size());
  const auto commit = [&](std::int64_t index) {
    entries[static_cast<std::size_t>(index)].status = MicroStatus::committed;
    ++committed[static_cast<std::size_t>(index)];
  };
  const Leases first = decide({.entries = entries}, workers, 0);
  for (const Worker& worker : workers) {
    const auto mine = first.of(worker.rank);
    for (std::size_t i = 0; i < std::min(until_lost, mine.size()); ++i) commit(mine[i]);
  }
  const auto lost = first.of(workers.front().rank);
  for (const std::int64_t index : lost) {
    if (entries[static_cast<std::size_t>(index)].status == MicroStatus::committed)
      --committed[static_cast<std::size_t>(index)];
    entries[static_cast<std::size_t>(index)].status = MicroStatus::lost;
  }
  workers.erase(workers.begin());
  const Leases second = decide({.entries = entries}, workers, 10);
  for (const Worker& worker : workers)
    for (const std::int64_t index : second.of(worker.rank)) commit(index);
  return committed;
}

TEST(Decide, EveryMicroBatchIsDoneOnceAlsoWhenARankIsLost) {
  Draw draw;
  for (int trial = 0; trial < 100; ++trial) {
    const std::int64_t micro_batches = draw.integer(1, 40);
    const std::vector<int> committed =
        run_with_loss(micro_batches, workers_of(draw.paces(draw.integer(2, 5))),
                      static_cast<std::size_t>(draw.integer(0, 10)));
    EXPECT_THAT(committed, ::testing::Each(1));
  }
}

TEST(Decide, RefusesGrains) {
  EXPECT_THAT(usage_message([] { decide({}, {{.rank = 0, .grain = 2}}, 0); }),
              HasSubstr("grain of 1"));
}

// Paces.

TEST(PaceEstimate, IsTheMedianOfTheLastNineWindows) {
  PaceEstimate estimate;
  EXPECT_EQ(estimate.pace().seconds, 0);
  estimate.observe(1, 50);  // a cold start
  estimate.observe(2, 4);
  EXPECT_DOUBLE_EQ(estimate.pace().seconds, 2);
  for (int window = 0; window < 7; ++window) estimate.observe(10, 20);
  estimate.observe(1, 400);  // a disturbance
  EXPECT_DOUBLE_EQ(estimate.pace().seconds, 2);
  EXPECT_EQ(estimate.observed().size(), PaceEstimate::kWindows);
  for (int window = 0; window < 5; ++window) estimate.observe(1, 3);
  EXPECT_DOUBLE_EQ(estimate.pace().seconds, 3) << "it has become slower";
  EXPECT_EQ(PaceEstimate(estimate.observed()).pace().seconds, 3);
}

TEST(PaceEstimate, ErrorIsThatOfTheMedianOfNormalNoise) {
  Draw draw;
  std::normal_distribution<double> noise(0, 0.04);
  double squared_error = 0, squared_estimate = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    PaceEstimate estimate;
    for (int window = 0; window < 9; ++window) estimate.observe(1, 5 * (1 + noise(draw.random)));
    squared_error += std::pow(estimate.pace().seconds / 5 - 1, 2);
    squared_estimate += std::pow(estimate.pace().error, 2);
  }
  // For nine values the factors, which hold for many, are off by a fifth.
  EXPECT_NEAR(std::sqrt(squared_estimate / squared_error), 1, 0.3);
}

TEST(PaceEstimate, ARankWithoutWorkIsTriedAgain) {
  PaceEstimate slow;
  for (int window = 0; window < 9; ++window) slow.observe(1, 100);
  const auto share = [&] {
    return divide(16, {{.rank = 0, .pace = {1}}, {.rank = 1, .pace = slow.pace()}}).leases[1].count;
  };
  EXPECT_EQ(share(), 0);
  int windows = 0;
  for (; share() == 0 && windows < 1000; ++windows) slow.observe(0, 0);
  EXPECT_EQ(share(), 1);
  EXPECT_GT(windows, 10);
  EXPECT_LT(windows, 200);
}

TEST(PaceEstimate, RefusesWhatIsNoObservation) {
  EXPECT_THAT(usage_message([] { PaceEstimate({1, -1}); }), HasSubstr("observed seconds above 0"));
}

}  // namespace
}  // namespace accrue::distributed
