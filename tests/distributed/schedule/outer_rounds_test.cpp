#include "distributed/schedule/outer_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "distributed/outer_problem.h"
#include "distributed/ranks.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue::distributed {
namespace {

using accrue::testing::close;
using accrue::testing::numbers_of;
using accrue::testing::usage_message;
using ::testing::HasSubstr;
using testing::kOuterSizes;

/// A run of three rounds of six inner steps, and two steps that are not a whole round.
constexpr std::int64_t kRound = 6, kSteps = 20;
constexpr double kRate = 0.7, kMomentum = 0.5;

struct Stream {
  std::int64_t parts = 1, delay = 0;
  /// Inner steps of a round after which each part is sent, by hand.
  std::vector<std::int64_t> sent;
  /// The first element of each part, and the end of the last, by hand.
  std::vector<std::int64_t> bounds{0, 36};
  std::string compress = "none";
};

void PrintTo(const Stream& c, std::ostream* out) {
  *out << c.parts << " parts, delay " << c.delay << ", " << c.compress;
}

std::vector<accrue::testing::Program::Result> run_stream(const Stream& c, int world) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("accrue_rounds" + std::to_string(::getpid()));
  auto results = accrue::testing::run_ranks(folder, world, world, [&](int) {
    return std::vector<std::string>{accrue::testing::rank_program(),
                                    "rounds",
                                    std::to_string(kRound),
                                    std::to_string(kSteps),
                                    std::to_string(kRate),
                                    std::to_string(kMomentum),
                                    std::to_string(c.parts),
                                    std::to_string(c.delay),
                                    c.compress};
  });
  std::filesystem::remove_all(folder);
  return results;
}

/// The computation stated in the header, element by element, in double and in one process.
class StatedSteps {
 public:
  StatedSteps(const Stream& c, std::int64_t world, bool keeps_what_moved = true)
      : case_(c), world_(world), keeps_(keeps_what_moved) {
    const auto elements = static_cast<std::size_t>(c.bounds.back());
    start_.resize(elements);
    velocity_.resize(elements);
    own_.assign(static_cast<std::size_t>(world), start_);
    sent_ = own_;
    weights_.assign(static_cast<std::size_t>(world), std::vector<double>(c.sent.size()));
    sent_weights_ = weights_;
    sent_at_.resize(c.sent.size());
    under_way_.resize(c.sent.size());
  }

  std::vector<double> start_after(std::int64_t steps) {
    for (std::int64_t step = 1; step <= steps; ++step) {
      take_inner_steps(step);
      const std::int64_t of_round = (step - 1) % kRound + 1;
      for (std::size_t part = 0; part < case_.sent.size(); ++part) {
        if (case_.sent[part] == of_round) send(part, step);
        if (case_.sent[part] + case_.delay == of_round) merge(part);
      }
    }
    for (std::size_t part = 0; part < case_.sent.size(); ++part) {
      if (under_way_[part]) merge(part);
      if (sent_at_[part] == steps) continue;
      send(part, steps);
      merge(part);
    }
    return start_;
  }

 private:
  void take_inner_steps(std::int64_t step) {
    for (std::int64_t rank = 0; rank < world_; ++rank) {
      std::vector<double>& own = own_[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < own.size(); ++i)
        own[i] += testing::movement(rank, step, static_cast<std::int64_t>(i));
      for (double& weight : weights_[static_cast<std::size_t>(rank)])
        weight += testing::weight_of(rank, step);
    }
  }

  void send(std::size_t part, std::int64_t step) {
    for (std::size_t rank = 0; rank < own_.size(); ++rank) {
      for (std::size_t i = begin(part); i < end(part); ++i) sent_[rank][i] = own_[rank][i];
      sent_weights_[rank][part] = std::exchange(weights_[rank][part], 0);
    }
    sent_at_[part] = step;
    under_way_[part] = true;
  }

  void merge(std::size_t part) {
    under_way_[part] = false;
    double total = 0;
    for (const auto& weights : sent_weights_) total += weights[part];
    for (std::size_t i = begin(part); i < end(part); ++i) {
      double gradient = 0;
      for (std::size_t rank = 0; rank < own_.size(); ++rank)
        gradient += sent_weights_[rank][part] / total * (start_[i] - sent_[rank][i]);
      velocity_[i] = kMomentum * velocity_[i] + gradient;
      start_[i] -= kRate * (gradient + kMomentum * velocity_[i]);
      for (std::size_t rank = 0; rank < own_.size(); ++rank)
        own_[rank][i] = start_[i] + (keeps_ ? own_[rank][i] - sent_[rank][i] : 0);
    }
  }

  std::size_t begin(std::size_t part) const { return static_cast<std::size_t>(case_.bounds[part]); }
  std::size_t end(std::size_t part) const { return begin(part + 1); }

  Stream case_;
  std::int64_t world_;
  bool keeps_;
  std::vector<double> start_, velocity_;
  std::vector<std::vector<double>> own_, sent_, weights_, sent_weights_;  ///< by rank
  std::vector<std::int64_t> sent_at_;
  std::vector<bool> under_way_;
};

class OuterRoundsOfRanks : public ::testing::TestWithParam<Stream> {};

/// Ranks of unequal weight, one of which has nothing at first. The comparison has to detect a
/// reference that drops the ranks' changes while an exchange was in progress.
TEST_P(OuterRoundsOfRanks, EndWhereTheStatedStepsInDoubleEnd) {
  for (const int world : {2, 3}) {
    const std::vector<double> expected = StatedSteps(GetParam(), world).start_after(kSteps);
    const std::vector<double> forgetful = StatedSteps(GetParam(), world, false).start_after(kSteps);
    std::set<std::string> outputs;
    for (const auto& result : run_stream(GetParam(), world)) {
      ASSERT_EQ(result.status, 0) << result.errors;
      const at::Tensor found = at::tensor(numbers_of(result.output)["parameters"], at::kDouble);
      EXPECT_TRUE(close(found, at::tensor(expected, at::kDouble), at::kFloat, kSteps)) << world;
      EXPECT_EQ(close(found, at::tensor(forgetful, at::kDouble), at::kFloat, kSteps),
                GetParam().delay == 0);
      outputs.insert(result.output);
    }
    EXPECT_EQ(outputs.size(), 1U) << "all ranks end with the same bits";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Streams, OuterRoundsOfRanks,
    ::testing::Values(
        Stream{.parts = 1, .delay = 0, .sent = {6}}, Stream{.parts = 1, .delay = 2, .sent = {4}},
        Stream{.parts = 1, .delay = 5, .sent = {1}},
        Stream{.parts = 2, .delay = 0, .sent = {3, 6}, .bounds = {0, 15, 36}},
        Stream{.parts = 2, .delay = 3, .sent = {2, 3}, .bounds = {0, 15, 36}},
        Stream{.parts = 3, .delay = 1, .sent = {2, 4, 5}, .bounds = {0, 13, 31, 36}},
        Stream{.parts = 5, .delay = 1, .sent = {1, 2, 3, 4, 5}, .bounds = {0, 4, 13, 15, 31, 36}}));

/// The code's error is below the size of a block's largest element over 127, and is not lost.
TEST(OuterRoundsCompressed, EndNearTheStatedStepsWithTheSameBitsOnAllRanks) {
  const Stream c{.parts = 2, .delay = 2, .sent = {2, 4}, .bounds = {0, 15, 36}, .compress = "int8"};
  const at::Tensor expected = at::tensor(StatedSteps(c, 2).start_after(kSteps), at::kDouble);
  const auto results = run_stream(c, 2);
  for (const auto& result : results) ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(results[0].output, results[1].output);
  const at::Tensor found = at::tensor(numbers_of(results[0].output)["parameters"], at::kDouble);
  EXPECT_LT(accrue::testing::relative_error(found, expected), 4.0 / 127);
  EXPECT_FALSE(close(found, expected, at::kFloat, kSteps)) << "it was compressed";
}

OuterRounds rounds_of(const NamedParameters& parameters, const OuterOptions& options) {
  return {nullptr, parameters, {.outer = options, .rank_sums = 1}};
}

TEST(OuterRounds, CountWhatIsBetweenTwoSendingsOfTheLastPart) {
  const NamedParameters parameters = testing::outer_parameters();
  OuterRounds rounds = rounds_of(parameters, {.local_steps = 4, .parts = 2, .delay = 1});
  std::vector<double> sums;
  for (std::int64_t step = 1; step <= 10; ++step) {
    rounds.go_on();
    const OuterOutcome outcome =
        rounds.after_step({.steps = step, .weight = 1, .rank_sums = {1}}, step == 10);
    EXPECT_EQ(outcome.totals.has_value(), step % 4 == 0 || step == 10) << step;
    if (outcome.totals) sums.push_back(outcome.totals->rank_sums.at(0));
  }
  EXPECT_THAT(sums, ::testing::ElementsAre(3, 4, 3));
}

/// Between rounds the start replaces the parameters.
TEST(OuterRounds, GoOnFromTheirStatesToTheBit) {
  const OuterOptions options{.local_steps = 5, .lr = 0.7, .momentum = 0.5, .parts = 2, .delay = 2};
  const NamedParameters parameters = testing::outer_parameters();
  OuterRounds rounds = rounds_of(parameters, options);
  const auto train = [](OuterRounds& of, const NamedParameters& moved, std::int64_t begin,
                        std::int64_t end) {
    for (std::int64_t step = begin + 1; step <= end; ++step) {
      of.go_on();
      testing::move(moved, 0, step);
      of.after_step({.steps = step, .weight = 1, .rank_sums = {1}}, false);
    }
  };
  train(rounds, parameters, 0, 10);
  ASSERT_TRUE(rounds.is_set_aside());

  const NamedParameters copies = testing::outer_parameters();
  for (std::size_t i = 0; i < copies.size(); ++i) copies[i].tensor.copy_(parameters[i].tensor);
  OuterRounds resumed = rounds_of(copies, options);
  resumed.load_state(stored(rounds.state()));
  resumed.load_own_state(stored(rounds.own_state()));
  train(rounds, parameters, 10, 20);
  train(resumed, copies, 10, 20);
  for (std::size_t i = 0; i < copies.size(); ++i)
    EXPECT_TRUE(at::equal(copies[i].tensor, parameters[i].tensor)) << i;
  rounds.go_on();
  EXPECT_FALSE(at::equal(copies[1].tensor, parameters[1].tensor)) << "its own, of the round";
}

/// The contents of a checkpoint of an earlier version: fewer counts, and then requests.
TEST(OuterRounds, TakeSumsThatAnEarlierVersionLacksForNothing) {
  const OuterOptions options{.local_steps = 3, .delay = 1};
  const auto rounds_with = [&](std::size_t sums) {
    return OuterRounds(nullptr, testing::outer_parameters(),
                       {.outer = options, .rank_sums = sums, .requests = 1});
  };
  OuterRounds before = rounds_with(2);
  for (std::int64_t step = 1; step <= 3; ++step)
    before.after_step({.steps = step, .weight = 5, .rank_sums = {7, 1}}, false);
  OuterRounds now = rounds_with(4);
  now.load_own_state(stored(before.own_state()));
  EXPECT_THAT(now.rank_sums(), ::testing::ElementsAre(7, 0, 0, 0)) << "of the step behind the send";
  OuterRounds fewer = rounds_with(1);
  EXPECT_THAT(usage_message([&] { fewer.load_own_state(stored(before.own_state())); }),
              HasSubstr("shares"));
}

TEST(OuterRounds, RefuseTheStateOfOtherRounds) {
  const OuterOptions streaming{.local_steps = 5, .parts = 2}, whole{.local_steps = 5};
  const OuterRounds other = rounds_of(testing::outer_parameters(), streaming);
  OuterRounds rounds = rounds_of(testing::outer_parameters(), whole);
  EXPECT_TRUE(rounds.own_state().empty());
  EXPECT_THAT(usage_message([&] { rounds.load_own_state(stored(other.own_state())); }),
              HasSubstr("received parameters"));
}

TEST(OuterSchedule, SendsEachPartAtAStepOfItsOwnAndMergesItInTheRound) {
  for (std::int64_t parts = 1; parts <= 7; ++parts)
    for (std::int64_t delay = 0; parts + delay <= 7; ++delay) {
      const OuterSchedule schedule({.local_steps = 7, .parts = parts, .delay = delay});
      std::vector<std::size_t> sent, merged;
      for (std::int64_t step = 8; step <= 14; ++step) {
        if (const auto part = schedule.sent_after(step)) {
          sent.push_back(*part);
          EXPECT_EQ(schedule.merged_after(step + delay), part);
        }
        if (const auto part = schedule.merged_after(step)) merged.push_back(*part);
      }
      EXPECT_EQ(sent.size(), static_cast<std::size_t>(parts)) << parts << " " << delay;
      EXPECT_TRUE(std::ranges::is_sorted(sent));
      EXPECT_EQ(merged, sent);
      EXPECT_TRUE(schedule.merged_after(14)) << "nothing is under way between rounds";
    }
}

TEST(OuterSchedule, RefusesWhatHasNoRoomInARound) {
  const auto message = [](const OuterOptions& options) {
    return usage_message([&] { OuterSchedule{options}; });
  };
  EXPECT_THAT(message({.local_steps = 0}), HasSubstr("at least 1 local step"));
  EXPECT_THAT(message({.lr = 0}), HasSubstr("a learning rate above 0"));
  EXPECT_THAT(message({.momentum = 1}), HasSubstr("a momentum in [0, 1)"));
  EXPECT_THAT(message({.parts = 0}), HasSubstr("at least 1 part"));
  EXPECT_THAT(message({.delay = -1}), HasSubstr("a delay of at least 0"));
  EXPECT_THAT(message({.local_steps = 4, .parts = 2, .delay = 3}), HasSubstr("received 2 + 3"));
}

TEST(OuterRates, AreTheMeanForOneStepAndSmallerForShortRounds) {
  const auto rates = [](std::int64_t local_steps) {
    const OuterRates usual = usual_outer_rates(local_steps);
    return std::pair(usual.lr, usual.momentum);
  };
  EXPECT_EQ(rates(1), std::pair(1.0, 0.0));
  EXPECT_EQ(rates(2), std::pair(0.5, 0.7));
  EXPECT_EQ(rates(15), std::pair(0.5, 0.7));
  EXPECT_EQ(rates(16), std::pair(0.7, 0.7));
  EXPECT_EQ(rates(500), std::pair(0.7, 0.7));
}

TEST(OuterParts, AreOfWholeParametersAndAboutAsLarge) {
  const NamedParameters parameters = testing::outer_parameters();
  EXPECT_THAT(divide_in_parts(parameters, 1), ::testing::ElementsAre(OuterPart{0, 5, 0, 36}));
  EXPECT_THAT(divide_in_parts(parameters, 2),
              ::testing::ElementsAre(OuterPart{0, 3, 0, 15}, OuterPart{3, 5, 15, 21}));
  for (std::int64_t parts = 1; parts <= 5; ++parts) {
    std::int64_t end = 0;
    for (const OuterPart& part : divide_in_parts(parameters, parts)) {
      EXPECT_EQ(part.begin, end);
      EXPECT_GT(part.elements, 0);
      end += part.elements;
    }
    EXPECT_EQ(end, 36);
  }
  EXPECT_THAT(usage_message([&] { divide_in_parts(parameters, 6); }),
              HasSubstr("at most as many parts as parameters (5), received 6"));
}

}  // namespace
}  // namespace accrue::distributed
