// Users' loops on several ranks, compared with one graph of libtorch over the whole batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "distributed/ranks.h"
#include "loop_problem.h"

namespace accrue::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// The tolerance for sums in double.
constexpr double kExact = 1e-12;
constexpr std::uint64_t kSeeds = 3;

struct Case {
  std::string form = "accumulate";
  int world = 2;
  std::uint64_t seed = 1;
  std::string fault = "nothing";
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.form << ' ' << c.world << " seed " << c.seed << ' ' << c.fault;
}

std::vector<Program::Result> run(const Case& c) {
  std::ostringstream name;
  name << "accrue_loop " << c << ' ' << ::getpid();
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / name.str();
  auto results = run_ranks(folder, c.world, c.world, [&](int) {
    return std::vector<std::string>{ACCRUE_LOOP_PROGRAM, c.form, std::to_string(c.seed), c.fault};
  });
  std::filesystem::remove_all(folder);
  return results;
}

/// The output of the ranks, which must all end with the same parameters.
std::vector<Numbers> train(const Case& c) {
  std::vector<Numbers> numbers;
  for (const Program::Result& result : run(c)) {
    EXPECT_EQ(result.status, 0) << c << ": " << result.errors;
    numbers.push_back(numbers_of(result.output));
    EXPECT_EQ(numbers.back()["parameters"], numbers.front()["parameters"]) << c;
  }
  return numbers;
}

std::vector<double> values_of(const std::vector<at::Tensor>& parameters) {
  std::vector<double> values;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor flat = parameter.detach().contiguous().view({-1});
    for (std::int64_t i = 0; i < flat.numel(); ++i) values.push_back(flat[i].item<double>());
  }
  return values;
}

double difference(const std::vector<double>& actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    largest = std::max(largest, std::abs(actual[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return largest / scale;
}

/// One step of libtorch's on a mean loss, clipped by the global norm.
void step_on(const at::Tensor& mean, torch::optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  mean.backward();
  double squares = 0;
  for (const at::Tensor& parameter : optimizer.param_groups()[0].params())
    squares += parameter.grad().square().sum().item<double>();
  if (const double norm = std::sqrt(squares); norm > LoopProblem::kClip)
    for (const at::Tensor& parameter : optimizer.param_groups()[0].params())
      parameter.grad().mul_(LoopProblem::kClip / norm);
  optimizer.step();
}

/// The final parameters after all windows; `mean_of` returns the mean loss of a window.
using MeanOf = std::function<at::Tensor(LoopProblem&, std::int64_t window)>;
std::vector<double> reference(const MeanOf& mean_of, std::int64_t windows = LoopProblem::kWindows,
                              std::uint64_t seed = 7) {
  LoopProblem problem(seed);
  torch::optim::SGD optimizer = problem.optimizer();
  for (std::int64_t window = 0; window < windows; ++window)
    step_on(mean_of(problem, window), optimizer);
  return values_of(problem.model->parameters());
}

at::Tensor mean_of_window(LoopProblem& problem, std::int64_t window) {
  const Loss loss = problem.loss(window, 0, LoopProblem::kSamples);
  return loss.sum / loss.weight;
}

at::Tensor mean_of_two_losses(LoopProblem& problem, std::int64_t window) {
  const std::vector<Loss> both = problem.losses(window, 0, LoopProblem::kSamples);
  return both[0].sum / both[0].weight + LoopProblem::kBoxes * both[1].sum / both[1].weight;
}

/// The windows of a loop in which rank r has every world-th sample up to `ends[r]`, and takes its
/// equal part of 12 of them at a time.
std::vector<double> reference_of_streams(const std::vector<std::int64_t>& ends) {
  const std::int64_t world = std::ssize(ends), part = 12 / world;
  const std::int64_t most = *std::ranges::max_element(ends);
  const std::int64_t windows = (most + world * part - 1) / (world * part);
  return reference(
      [&](LoopProblem& problem, std::int64_t window) {
        at::Tensor sum = at::zeros({}, at::kDouble);
        double weight = 0;
        for (std::int64_t rank = 0; rank < world; ++rank)
          for (std::int64_t i = window * part; i < (window + 1) * part; ++i) {
            const std::int64_t sample = rank + i * world;
            if (sample >= ends[static_cast<std::size_t>(rank)]) continue;
            const std::int64_t row = sample % LoopProblem::kSamples;
            const Loss loss = problem.loss(sample / LoopProblem::kSamples, row, row + 1);
            sum = sum + loss.sum;
            weight += loss.weight;
          }
        return sum / weight;
      },
      windows);
}

class Loops : public ::testing::TestWithParam<int> {
 protected:
  int world() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Loops, ::testing::Values(1, 2, 3));

TEST_P(Loops, AccumulatorsOfAnySplitStepAsOneGraphDoes) {
  const std::vector<double> expected = reference(mean_of_window);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Case c{.world = world(), .seed = seed, .fault = seed == 3 ? "end" : "nothing"};
    for (Numbers& numbers : train(c)) {
      EXPECT_LT(difference(numbers["parameters"], expected), kExact) << c;
      EXPECT_THAT(numbers["world"], Each(world()));
    }
  }
}

TEST_P(Loops, OfFullAndFinishTakeWhatEachRankHas) {
  constexpr std::int64_t kAll = LoopProblem::kWindows * LoopProblem::kSamples;
  std::vector<std::int64_t> ends(static_cast<std::size_t>(world()), kAll);
  Numbers numbers = train({.form = "stream", .world = world()}).back();
  EXPECT_LT(difference(numbers["parameters"], reference_of_streams(ends)), kExact);
  if (world() == 1) return;
  ends[1] = kAll / 3;
  numbers = train({.form = "stream", .world = world(), .fault = "short"}).back();
  EXPECT_LT(difference(numbers["parameters"], reference_of_streams(ends)), kExact);
}

TEST_P(Loops, OfSeveralLossesHaveTheirDenominatorsFromAllRanks) {
  const std::vector<double> expected = reference(mean_of_two_losses);
  for (const char* fault : {"nothing", "nan loss"}) {
    const Case c{.form = "losses", .world = world(), .seed = 2, .fault = fault};
    for (Numbers& numbers : train(c)) {
      EXPECT_LT(difference(numbers["parameters"], expected), kExact) << c;
      EXPECT_EQ(numbers["quarantined"].at(1), fault == std::string("nan loss"));
    }
  }
}

TEST_P(Loops, OfStepsGiveEachRankItsSamples) {
  const std::vector<double> expected = reference(mean_of_window);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Case c{.form = "step", .world = world(), .seed = seed};
    Numbers numbers = train(c).back();
    EXPECT_LT(difference(numbers["parameters"], expected), kExact) << c;
  }
}

TEST_P(Loops, OfCoupledLossesSeeTheSamplesOfAllRanks) {
  torch::manual_seed(7);
  Coupled model;
  torch::optim::SGD optimizer(model->parameters(), LoopProblem::kRate);
  const LoopProblem problem;
  for (std::int64_t window = 0; window < LoopProblem::kWindows; ++window)
    step_on(model->loss(model->encode({problem.inputs[window], problem.inputs[window] + 0.5})),
            optimizer);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const Case c{.form = "coupled", .world = world(), .seed = seed};
    Numbers numbers = train(c).back();
    EXPECT_LT(difference(numbers["parameters"], values_of(model->parameters())), kExact) << c;
  }
}

TEST_P(Loops, LeaveOutWhatIsNotFiniteOnAllRanksAlike) {
  const std::vector<double> expected = reference(mean_of_window);
  for (const char* fault : {"nan loss", "nan gradient"}) {
    const Case c{.world = world(), .seed = 2, .fault = fault};
    for (Numbers& numbers : train(c)) {
      EXPECT_LT(difference(numbers["parameters"], expected), kExact) << c;
      EXPECT_EQ(numbers["quarantined"].at(1), 1) << c;
    }
  }
}

/// This includes a rank's last micro-batch of the window, whose sums travel during its backward.
TEST_P(Loops, WhatRunsOutOfMemoryOnOneRankIsSplitThere) {
  const std::vector<double> expected = reference(mean_of_window);
  bool split_somewhere = false;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Case c{.world = world(), .seed = seed, .fault = "out of memory"};
    std::vector<Numbers> ranks = train(c);
    for (Numbers& numbers : ranks)
      EXPECT_LT(difference(numbers["parameters"], expected), kExact) << c;
    const std::size_t scarce_rank = world() == 1 ? 0 : 1;
    const bool runs_out =
        std::ranges::any_of(random_split(seed, 1, world()), [&](const LoopMicro& micro) {
          return micro.rank == static_cast<std::int64_t>(scarce_rank) &&
                 micro.end - micro.begin > 2;
        });
    split_somewhere = split_somewhere || runs_out;
    Numbers& scarce = ranks[scarce_rank];
    EXPECT_EQ(scarce["retries"].at(1) > 1, runs_out) << c << ": once more, and then in parts";
    EXPECT_EQ(scarce["retries"].at(0), 0) << c;
  }
  EXPECT_TRUE(split_somewhere);
}

TEST_P(Loops, InFixedPointHaveTheBitsOfOneProcess) {
  const Case c{.world = world(), .fault = "fixed"};
  Case alone = c;
  alone.world = 1;
  EXPECT_EQ(train(c).back()["parameters"], train(alone).back()["parameters"]);
}

TEST_P(Loops, OfAMeanOrOfAForgottenLossAreFound) {
  const std::vector<double> expected = reference(mean_of_window);
  for (const char* fault : {"mean", "forgets"}) {
    const Case c{.world = world(), .fault = fault};
    EXPECT_GT(difference(train(c).back()["parameters"], expected), 1e-3) << c;
  }
}

/// The mean over the first micro-batch of each rank that has one.
at::Tensor mean_of_first_micros(LoopProblem& problem, std::int64_t window, const Case& c) {
  Loss all{.sum = at::zeros({}, at::kDouble), .weight = 0};
  std::set<std::int64_t> seen;
  for (const LoopMicro& micro : random_split(c.seed, window, c.world)) {
    if (!seen.insert(micro.rank).second) continue;
    const Loss loss = problem.loss(window, micro.begin, micro.end);
    all.sum = all.sum + loss.sum;
    all.weight += loss.weight;
  }
  return all.sum / all.weight;
}

TEST(LoopsOfTwoRanks, MayHaveTwoWindowsOpen) {
  const Case c{.form = "two"};
  const auto of_seed = [&](std::uint64_t seed) {
    return reference([&](LoopProblem& problem,
                         std::int64_t window) { return mean_of_first_micros(problem, window, c); },
                     LoopProblem::kWindows, seed);
  };
  const std::vector<double> first = of_seed(9), second = of_seed(7);
  const auto both = [](std::vector<double> one, const std::vector<double>& other) {
    one.insert(one.end(), other.begin(), other.end());
    return one;
  };
  const std::vector<double> actual = train(c).front()["parameters"];
  EXPECT_LT(difference(actual, both(first, second)), kExact);
  EXPECT_GT(difference(actual, both(second, first)), 1e-3) << "windows of each other's model";
  EXPECT_GT(difference(actual, both(first, reference(mean_of_window))), 1e-3) << "other samples";
}

/// A sum of two ranks' gradients is rounded three times, each time to 1/254 of the largest element
/// of its block: each rank's contribution, which may be larger than the sum, and the result.
TEST(LoopsOfTwoRanks, CompressAsRunsDo) {
  const Case c{.seed = 2, .fault = "int8"};
  const std::vector<double> start = values_of(LoopProblem(7, at::kFloat).model->parameters());
  const auto way_to = [&](std::vector<double> end) {
    for (std::size_t i = 0; i < end.size(); ++i) end[i] -= start[i];
    return end;
  };
  const std::vector<double> way = way_to(reference(mean_of_window, 1));
  constexpr double kBound = 6.0 / 254;
  const double error = difference(way_to(train(c).back()["first"]), way);
  EXPECT_LT(error, kBound);
  EXPECT_GT(error, 1e-6) << "such sums are not exact";
  const auto of_one_rank = [&](LoopProblem& problem, std::int64_t window) {
    Loss own{.sum = at::zeros({}, at::kDouble), .weight = 0};
    for (const LoopMicro& micro : random_split(c.seed, window, c.world)) {
      if (micro.rank != 0) continue;
      const Loss loss = problem.loss(window, micro.begin, micro.end);
      own.sum = own.sum + loss.sum;
      own.weight += loss.weight;
    }
    return own.sum / own.weight;
  };
  EXPECT_GT(difference(way_to(reference(of_one_rank, 1)), way), kBound)
      << "a sum that lacks a rank is not within the bound";
}

#ifdef ACCRUE_LOOP_EXAMPLE
TEST(LoopsOfTwoRanks, OfTheExampleLearnWhatOneProcessDoes) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) /
                                       ("accrue_loop_example " + std::to_string(::getpid()));
  std::vector<double> losses;
  for (const int world : {1, 2})
    for (const Program::Result& result : run_ranks(folder, world, world, [](int) {
           return std::vector<std::string>{ACCRUE_LOOP_EXAMPLE};
         })) {
      EXPECT_EQ(result.status, 0) << result.output << result.errors;
      losses.push_back(numbers_of(result.output)["loss"].at(0));
    }
  std::filesystem::remove_all(folder);
  EXPECT_EQ(losses[1], losses[2]) << "on both ranks";
  EXPECT_NEAR(losses[0], losses[1], 1e-9 * losses[0]) << "60 steps in double precision";
}
#endif

/// The message of each rank about an error that ends all.
std::vector<std::string> errors_of(const Case& c) {
  std::vector<std::string> errors;
  for (const Program::Result& result : run(c)) {
    EXPECT_NE(result.status, 0) << c;
    errors.push_back(result.errors);
  }
  return errors;
}

TEST(LoopsOfTwoRanks, EndTogetherWithTheReason) {
  EXPECT_THAT(errors_of({.seed = 2, .fault = "throws"}),
              Each(HasSubstr("the loader's disk is gone")));
  EXPECT_THAT(errors_of({.form = "step", .seed = 2, .fault = "throws"}),
              Each(HasSubstr("the loader's disk is gone")));
  EXPECT_THAT(errors_of({.fault = "other seed"}),
              Each(HasSubstr("the same parameters on all of them")));
  EXPECT_THAT(errors_of({.form = "losses", .seed = 2, .fault = "forgets one"}),
              Each(HasSubstr("the total weights given to expect()")));
  EXPECT_THAT(errors_of({.form = "losses", .seed = 2, .fault = "gives one"}),
              Each(HasSubstr("combine losses")));
}

}  // namespace
}  // namespace accrue::testing
