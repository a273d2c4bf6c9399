#include "distributed/reduce/deferred_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "distributed/ranks.h"
#include "distributed/staged_problem.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue::distributed {
namespace {

using accrue::testing::make_staged_problem;
using accrue::testing::numbers_of;
using accrue::testing::StagedProblem;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kWindows = 3;
constexpr std::size_t kBadWindow = 1, kBadMicroBatch = accrue::testing::kStagedMicroBatches - 1;

/// A rank's output, by name.
using Figures = accrue::testing::Numbers;

struct Case {
  std::string accumulation = "fp32", mode = "overlap", sharing = "turns", fault = "nothing";
  int world = 2;
  std::string sums = "whole";
  std::int64_t hidden = 7;
};

/// Two of its parameters consist of several grains, so that ranks own ranges of them. Sums in 64
/// bits are large enough to be offloaded (64 KiB).
constexpr std::int64_t kManyHidden = 900;

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.accumulation << ' ' << c.mode << ' ' << c.sharing << ' ' << c.fault << ' '
             << c.world << ' ' << c.sums;
}

/// The folder in which the tests run: the temporary one may lie in memory.
std::filesystem::path disk() { return std::filesystem::current_path(); }

std::vector<accrue::testing::Program::Result> run(const Case& c) {
  std::ostringstream name;
  name << "accrue_reduce " << c << ' ' << ::getpid();
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / name.str();
  auto results = accrue::testing::run_ranks(folder, c.world, c.world, [&](int) {
    return std::vector<std::string>{accrue::testing::rank_program(),
                                    "reduce",
                                    c.accumulation,
                                    c.mode,
                                    c.sharing,
                                    c.fault,
                                    c.sums,
                                    std::to_string(c.hidden),
                                    disk().string()};
  });
  std::filesystem::remove_all(folder);
  return results;
}

std::vector<Figures> train(const Case& c) {
  std::vector<Figures> figures;
  for (const auto& result : run(c)) {
    EXPECT_EQ(result.status, 0) << c << ": " << result.errors;
    figures.push_back(numbers_of(result.output));
  }
  return figures;
}

/// All micro-batches at once, in double, without a gradient buffer.
StagedProblem reference(const std::vector<std::size_t>& left_out_of_bad_window = {},
                        std::int64_t hidden = 7) {
  StagedProblem problem = make_staged_problem(at::kDouble, hidden);
  for (std::size_t window = 0; window < kWindows; ++window) {
    std::vector<std::size_t> taken;
    for (std::size_t micro = 0; micro < problem.size(); ++micro)
      if (window != kBadWindow || std::ranges::count(left_out_of_bad_window, micro) == 0)
        taken.push_back(micro);
    problem.descend(taken, problem.rate());
  }
  return problem;
}

at::Tensor printed(const Figures& figures, const NamedParameter& parameter) {
  return at::tensor(figures.at(parameter.name), at::kDouble).view(parameter.tensor.sizes());
}

::testing::AssertionResult is_close(const Figures& figures, const StagedProblem& expected,
                                    at::ScalarType dtype) {
  double rows = 0;
  for (std::size_t micro = 0; micro < expected.size(); ++micro) rows += expected.weight(micro);
  const std::int64_t hidden = expected.parameter(1).numel();
  const std::int64_t terms = static_cast<std::int64_t>(rows) * kWindows * hidden;
  for (const NamedParameter& parameter : expected.parameters) {
    auto close =
        accrue::testing::close(printed(figures, parameter), parameter.tensor, dtype, terms);
    if (!close) return close << " of " << parameter.name;
  }
  return ::testing::AssertionSuccess();
}

void expect_same_bits(const Figures& a, const Figures& b) {
  for (const NamedParameter& parameter : make_staged_problem(at::kFloat).parameters)
    EXPECT_EQ(a.at(parameter.name), b.at(parameter.name)) << parameter.name;
}

void expect_ranks_agree(const std::vector<Figures>& ranks) {
  for (const Figures& rank : ranks) {
    expect_same_bits(rank, ranks.front());
    EXPECT_EQ(rank.at("weight"), ranks.front().at("weight"));
    EXPECT_EQ(rank.at("norm"), ranks.front().at("norm"));
  }
}

TEST(DeferredReduce, GivesTheFullBatchForAnyWorldSharingAndMode) {
  const StagedProblem expected = reference();
  for (const Case& c :
       {Case{.world = 2}, Case{.world = 3}, Case{.world = 4}, Case{.mode = "end", .world = 3},
        Case{.sharing = "uneven", .world = 3}, Case{.mode = "end", .sharing = "first", .world = 2},
        Case{.sharing = "first", .world = 4}, Case{.accumulation = "fp64"}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const std::vector<Figures> ranks = train(c);
    expect_ranks_agree(ranks);
    EXPECT_TRUE(
        is_close(ranks.front(), expected, c.accumulation == "fp64" ? at::kDouble : at::kFloat));
    EXPECT_THAT(ranks.front().at("figures"), Each(accrue::testing::kStagedMicroBatches));
    EXPECT_THAT(ranks.front().at("retries"), Each(0));
  }
}

/// An error that the comparison has to detect: ranks that average their own means.
TEST(DeferredReduce, AMeanOfRanksMeansWouldBeNoticed) {
  const StagedProblem expected = reference();
  StagedProblem problem = make_staged_problem(at::kDouble);
  StagedProblem even = make_staged_problem(at::kDouble), odd = make_staged_problem(at::kDouble);
  for (int window = 0; window < kWindows; ++window) {
    even.descend({0, 2, 4, 6}, even.rate());
    odd.descend({1, 3, 5}, odd.rate());
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < problem.parameters.size(); ++i) {
      const at::Tensor mean = (even.parameter(i) + odd.parameter(i)) / 2;
      for (const StagedProblem* one : {&problem, &even, &odd}) one->parameter(i).copy_(mean);
    }
  }
  Figures figures;
  for (const NamedParameter& parameter : problem.parameters) {
    const at::Tensor flat = parameter.tensor.detach().reshape({-1}).contiguous();
    figures[parameter.name].assign(flat.const_data_ptr<double>(),
                                   flat.const_data_ptr<double>() + flat.numel());
  }
  EXPECT_FALSE(is_close(figures, expected, at::kFloat));
}

TEST(DeferredReduce, FixedPointHasTheSameBitsForAnyWorld) {
  const Figures alone = train({.accumulation = "fixed", .world = 1}).front();
  EXPECT_TRUE(is_close(alone, reference(), at::kFloat));
  std::vector<Case> cases{{.mode = "end", .world = 3}};
  for (const int world : {2, 3, 4, 8}) cases.push_back({.world = world});
  for (Case& c : cases) {
    c.accumulation = "fixed";
    for (const Figures& rank : train(c)) expect_same_bits(rank, alone);
  }
}

/// The control of the test above: in fp32 the bits follow the order of the additions.
TEST(DeferredReduce, InSinglePrecisionTheBitsDependOnTheWorld) {
  const Figures alone = train({.world = 1}).front();
  const Figures four = train({.world = 4}).front();
  EXPECT_NE(alone.at("first.weight"), four.at("first.weight"));
}

TEST(DeferredReduce, FixedPointUnitsThatOneRankNeedsAreEnlargedOnAll) {
  const Case one{.accumulation = "fixed", .fault = "large", .world = 1};
  const Figures alone = train(one).front();
  for (const int world : {2, 3}) {
    Case c = one;
    c.world = world;
    const std::vector<Figures> ranks = train(c);
    for (const Figures& rank : ranks) {
      expect_same_bits(rank, alone);
      EXPECT_GE(rank.at("retries").at(kBadWindow), 1);
    }
  }
}

TEST(DeferredReduce, AMicroBatchThatIsUndoneInItsReductionCostsNothingButTime) {
  for (const char* fault : {"aborted", "twice"}) {
    const std::vector<Figures> ranks = train({.fault = fault, .world = 3});
    expect_ranks_agree(ranks);
    EXPECT_TRUE(is_close(ranks.front(), reference(), at::kFloat));
    for (const Figures& rank : ranks) EXPECT_EQ(rank.at("retries").at(kBadWindow), 1) << fault;
  }
}

TEST(DeferredReduce, AGradientThatIsNotFiniteIsLeftOutByAll) {
  for (const char* mode : {"overlap", "end"}) {
    const std::vector<Figures> ranks = train({.mode = mode, .fault = "nan", .world = 3});
    expect_ranks_agree(ranks);
    EXPECT_TRUE(is_close(ranks.front(), reference({kBadMicroBatch}), at::kFloat));
    EXPECT_FALSE(is_close(ranks.front(), reference(), at::kFloat));
  }
}

/// In units of the codes' roundoff, so that bf16's bound holds for int8, whose blocks are no larger
/// than a parameter here.
TEST(DeferredReduce, CompressedSumsAreTheSameOnAllRanksAndWithinTheirCodesError) {
  for (const Case& c : {Case{.mode = "bf16", .world = 3}, Case{.mode = "int8", .sharing = "first"},
                        Case{.mode = "powersgd", .sharing = "uneven", .world = 3}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const std::vector<Figures> ranks = train(c);
    expect_ranks_agree(ranks);
    // Factors would not make these matrices smaller: powersgd sums them in fp32.
    const bool rounds = c.mode != "powersgd";
    EXPECT_TRUE(is_close(ranks.front(), reference(), rounds ? at::kBFloat16 : at::kFloat));
    EXPECT_EQ(static_cast<bool>(is_close(ranks.front(), reference(), at::kFloat)), !rounds);
  }
}

TEST(DeferredReduce, AGradientThatIsNotFiniteIsLeftOutOfCompressedSums) {
  const std::vector<Figures> ranks = train({.mode = "bf16", .fault = "nan", .world = 3});
  expect_ranks_agree(ranks);
  EXPECT_TRUE(is_close(ranks.front(), reference({kBadMicroBatch}), at::kBFloat16));
  for (const Figures& rank : ranks) EXPECT_EQ(rank.at("norm").size(), kWindows);
}

TEST(DeferredReduce, SumsThatAreDamagedOnceAreMadeAnew) {
  for (const char* mode : {"overlap", "end"}) {
    const std::vector<Figures> ranks = train({.mode = mode, .fault = "damaged-once", .world = 3});
    expect_ranks_agree(ranks);
    EXPECT_TRUE(is_close(ranks.front(), reference(), at::kFloat)) << mode;
  }
}

TEST(DeferredReduce, ARankWhoseSumsAreDamagedAgainIsNamedAndNobodySteps) {
  for (const char* mode : {"overlap", "end"}) {
    const auto results = run({.mode = mode, .fault = "damaged", .world = 3});
    for (const auto& result : results) {
      EXPECT_EQ(result.status, 1);
      EXPECT_THAT(result.errors, HasSubstr("window 1: expected finite sums of this rank"));
      EXPECT_THAT(result.errors, HasSubstr("one of 'second.weight' that is not"));
      EXPECT_EQ(numbers_of(result.output).at("norm").size(), kBadWindow);
    }
    EXPECT_THAT(results[0].errors, HasSubstr("rank 1 failed: "));
  }
}

TEST(DeferredReduce, AWindowThatOneRankLosesIsDroppedByAll) {
  const std::vector<Figures> ranks = train({.fault = "lost", .world = 3});
  expect_ranks_agree(ranks);
  for (const Figures& rank : ranks) {
    EXPECT_EQ(rank.at("weight").at(kBadWindow), 0);
    EXPECT_EQ(rank.at("norm").size(), kWindows - 1);
  }
}

TEST(DeferredReduce, ARankThatDiesAmongSeveralBucketsIsNamedAndNobodySteps) {
  const Case c{.fault = "killed", .world = 3};
  constexpr int dead = 1, killed = 128 + SIGKILL;
  const auto results = run(c);
  for (int rank = 0; rank < c.world; ++rank) {
    const auto& result = results[static_cast<std::size_t>(rank)];
    EXPECT_EQ(result.status, rank == dead ? killed : 1) << result.errors;
    if (rank == dead) continue;
    EXPECT_THAT(result.errors, HasSubstr("no sign of life from rank " + std::to_string(dead)));
    EXPECT_EQ(numbers_of(result.output).at("norm").size(), kBadWindow);
  }
}

TEST(DeferredReduce, EachWindowSendsItsGradientsOnce) {
  const Figures rank = train({.world = 2}).front();
  constexpr double sums = (35 + 7 + 21 + 7) * sizeof(float);
  const std::vector<double>& wire = rank.at("wire");
  EXPECT_EQ(wire.at(1), wire.at(2));
  // And a row of numbers.
  EXPECT_GE(wire.at(1), sums);
  EXPECT_LE(wire.at(1), sums + 128);
}

TEST(ShardedReduce, GivesTheFullBatchForAnyWorldSharingAndMode) {
  for (Case c : {Case{.world = 4}, Case{.mode = "end", .sharing = "uneven", .world = 3},
                 Case{.accumulation = "fp64", .world = 2}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    c.sums = "sharded";
    c.hidden = kManyHidden;
    const std::vector<Figures> ranks = train(c);
    expect_ranks_agree(ranks);
    EXPECT_TRUE(is_close(ranks.front(), reference({}, kManyHidden),
                         c.accumulation == "fp64" ? at::kDouble : at::kFloat));
    EXPECT_THAT(ranks.front().at("retries"), Each(0));
  }
}

/// An error that the comparisons have to detect: ranks do not send their stepped parameters.
TEST(ShardedReduce, ParametersThatAreNotGatheredWouldBeNoticed) {
  const std::vector<Figures> ranks =
      train({.fault = "apart", .world = 2, .sums = "sharded", .hidden = kManyHidden});
  EXPECT_NE(ranks[0].at("first.weight"), ranks[1].at("first.weight"));
  EXPECT_FALSE(is_close(ranks[0], reference({}, kManyHidden), at::kFloat));
}

TEST(ShardedReduce, FixedPointHasTheBitsAndTheNormOfOneProcess) {
  std::map<std::string, Figures> alone;
  for (const char* fault : {"nothing", "large"})
    alone[fault] =
        train({.accumulation = "fixed", .fault = fault, .world = 1, .hidden = kManyHidden}).front();
  for (Case c : {Case{.world = 2}, Case{.world = 4}, Case{.mode = "end", .world = 3},
                 Case{.fault = "large", .world = 3}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    c.accumulation = "fixed";
    c.sums = "sharded";
    c.hidden = kManyHidden;
    for (const Figures& rank : train(c)) {
      expect_same_bits(rank, alone.at(c.fault));
      EXPECT_EQ(rank.at("norm"), alone.at(c.fault).at("norm"));
    }
  }
}

TEST(ShardedReduce, WhatGoesWrongInAMicroBatchIsDealtWithByAll) {
  for (const char* fault : {"aborted", "nan", "lost"}) {
    SCOPED_TRACE(fault);
    const std::vector<Figures> ranks =
        train({.fault = fault, .world = 3, .sums = "sharded", .hidden = kManyHidden});
    expect_ranks_agree(ranks);
    const std::string what = fault;
    if (what == "lost") {
      for (const Figures& rank : ranks) EXPECT_EQ(rank.at("weight").at(kBadWindow), 0);
      continue;
    }
    const std::vector<std::size_t> left_out =
        what == "nan" ? std::vector{kBadMicroBatch} : std::vector<std::size_t>{};
    EXPECT_TRUE(is_close(ranks.front(), reference(left_out, kManyHidden), at::kFloat));
  }
}

TEST(ShardedReduce, SendsTheGradientsOnceAndTheParametersOnce) {
  constexpr int world = 4;
  constexpr std::int64_t hidden = world * kRangeGrain;  // divided evenly
  constexpr double bytes = (5 + 1 + 3 + 1) * hidden * sizeof(float);
  constexpr double expected = 2.0 * (world - 1) / world * bytes;
  for (const Figures& rank : train({.world = world, .sums = "sharded", .hidden = hidden}))
    for (const double sent : rank.at("sent")) {
      EXPECT_GE(sent, expected);
      EXPECT_LE(sent, 1.03 * expected);
    }
}

/// Each parameter's sum is a part that is reduced alone.
TEST(OffloadedReduce, HasTheBitsOfSumsInMemory) {
  const Figures alone = train({.accumulation = "fixed", .world = 1, .hidden = kManyHidden}).front();
  EXPECT_THAT(alone.at("offloaded"), Each(0));
  for (Case c : {Case{.world = 2}, Case{.mode = "end", .world = 3}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    c.accumulation = "fixed";
    c.sums = "offloaded";
    c.hidden = kManyHidden;
    for (const Figures& rank : train(c)) {
      EXPECT_THAT(rank.at("offloaded"), Each(1));
      expect_same_bits(rank, alone);
      EXPECT_EQ(rank.at("norm"), alone.at("norm"));
    }
  }
}

TEST(OffloadedReduce, ARankThatDiesIsNamedAndNobodySteps) {
  const Case c{.accumulation = "fixed",
               .fault = "killed",
               .world = 3,
               .sums = "offloaded",
               .hidden = kManyHidden};
  const auto results = run(c);
  EXPECT_EQ(results[1].status, 128 + SIGKILL);
  for (const std::size_t rank : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(results[rank].status, 1) << results[rank].errors;
    EXPECT_THAT(results[rank].errors, HasSubstr("no sign of life from rank 1"));
    EXPECT_EQ(numbers_of(results[rank].output).at("norm").size(), kBadWindow);
  }
}

TEST(DeferredReduce, RefusesSumsThatRanksWouldRoundAgain) {
  StagedProblem problem = make_staged_problem(at::kFloat);
  const auto buffer =
      std::make_shared<accum::GradientBuffer>(problem.parameters, accum::Accumulation::bf16_kahan);
  EXPECT_THAT(
      accrue::testing::usage_message([&] { DeferredReduce(std::shared_ptr<Group>(), buffer); }),
      HasSubstr("bf16-kahan"));
}

TEST(DeferredReduce, CompressesSumsInSinglePrecisionAlone) {
  for (const auto& [mode, accumulation] : {std::pair{"bf16", "fixed"}, {"int8", "fp64"}})
    for (const auto& result : run({.accumulation = accumulation, .mode = mode})) {
      EXPECT_EQ(result.status, 2);
      EXPECT_THAT(result.errors, HasSubstr("compress gradients: expected sums in fp32"));
    }
}

}  // namespace
}  // namespace accrue::distributed
