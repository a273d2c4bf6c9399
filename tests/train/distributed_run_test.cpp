#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "accrue/core/atomic_file.h"
#include "dist/ranks.h"
#include "ranks.h"
#include "support/tolerance.h"
#include "tiny_run.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr int kInterrupted = 130;

/// Runs of the command line by several processes.
class DistributedRun : public testing::TinyRun {
 protected:
  Config small(const std::string& out) const {
    Config c = config(out);
    c.run.threads = 1;
    c.run.eval_every = Duration{3, Duration::Unit::steps};
    c.run.checkpoint_every = {3, Duration::Unit::steps};
    c.optim.kind = "sgd";
    c.dist.timeout = {20, Duration::Unit::seconds};
    return c;
  }

  static ::testing::AssertionResult evaluates_alike(const Config& c, const Config& expected) {
    return accrue::testing::close(eval_losses_of(c), eval_losses_of(expected), at::kFloat,
                                  *c.batch.tokens * *c.run.steps);
  }

  Words command(const Config& c, const Words& more = {}) const {
    const std::filesystem::path file = c.run.out + ".toml";
    std::ofstream(file) << to_toml(c);
    Words words{ACCRUE_PROGRAM, "train", file.string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::vector<Program::Result> run(const Config& c, int world, const Words& more = {}) const {
    const Words words = command(c, more);
    return accrue::testing::run_ranks(folder_, world, world, [&](int) { return words; });
  }

  void expect_runs(const Config& c, int world, const Words& more = {}) const {
    for (const Program::Result& result : run(c, world, more))
      EXPECT_EQ(result.status, 0) << result.errors;
  }

  /// Those of metrics.jsonl that have `key`.
  static std::vector<nlohmann::json> lines_with(const std::string& key, const Config& c) {
    std::vector<nlohmann::json> found;
    std::ifstream lines(RunDirectory(c.run.out).metrics_file());
    for (std::string line; std::getline(lines, line);)
      if (auto json = nlohmann::json::parse(line); json.contains(key)) found.push_back(json);
    return found;
  }
  static std::vector<nlohmann::json> steps_of(const Config& c) { return lines_with("lr", c); }

  /// Of the evaluations, in their order.
  static at::Tensor eval_losses_of(const Config& c) {
    std::vector<double> losses;
    for (const nlohmann::json& line : lines_with("eval_loss", c))
      losses.push_back(line["eval_loss"]);
    return at::tensor(losses, at::kDouble);
  }

  static void wait_for_metrics(const Config& c) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (steps_of(c).empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the run has made no step";
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
};

TEST(ShareOfAWindow, IsWholeMicroBatchesInOnePiece) {
  const batch::Range window{100, 115};
  EXPECT_EQ(share_of(window, 4, 0, 3), (batch::Range{100, 108}));
  EXPECT_EQ(share_of(window, 4, 1, 3), (batch::Range{108, 112}));
  EXPECT_EQ(share_of(window, 4, 2, 3), (batch::Range{112, 115}));
  EXPECT_EQ(share_of(window, 8, 2, 3).size(), 0);
}

TEST(MostFrugalPlan, IsTheSmallestMicroBatchWithTheMostRecomputation) {
  const MicroDecision large{.samples = 8, .recompute = Recompute::full};
  const MicroDecision small{.samples = 4}, smaller{.samples = 4, .recompute = Recompute::selective};
  EXPECT_EQ(most_frugal({large, small, smaller}).recompute, Recompute::selective);
}

TEST_F(DistributedRun, HasTheBitsOfOneProcessInFixedPoint) {
  Config alone = small("alone");
  alone.precision.accumulate = "fixed";
  expect_runs(alone, 1);
  for (const int world : {2, 3}) {
    Config c = alone;
    c.run.out = (folder_ / ("world" + std::to_string(world))).string();
    expect_runs(c, world);
    expect_same_bits(parameters_of(c), parameters_of(alone));
    EXPECT_TRUE(evaluates_alike(c, alone));
    const auto steps = steps_of(c), expected = steps_of(alone);
    ASSERT_EQ(steps.size(), expected.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(steps[i]["world"], world);
      for (const char* key : {"step", "samples", "tokens", "weight", "micro_batches", "grad_norm"})
        EXPECT_EQ(steps[i][key], expected[i][key]) << key;
      EXPECT_GT(steps[i]["wire_bytes"], 0);
      EXPECT_GE(steps[i]["reduce_seconds"], steps[i]["reduce_exposed_seconds"]);
      EXPECT_FALSE(expected[i].contains("wire_bytes"));
    }
  }
}

TEST_F(DistributedRun, IsCloseToOneProcessInSinglePrecision) {
  const Config alone = small("alone");
  expect_runs(alone, 1);
  for (const char* reduce : {"overlap", "end"}) {
    Config c = alone;
    c.run.out = (folder_ / reduce).string();
    c.dist.reduce = reduce;
    expect_runs(c, 2);
    const NamedParameters parameters = parameters_of(c), expected = parameters_of(alone);
    const std::int64_t terms = *c.batch.tokens * *c.run.steps;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(
          accrue::testing::close(parameters[i].tensor, expected[i].tensor, at::kFloat, terms))
          << parameters[i].name;
    EXPECT_TRUE(evaluates_alike(c, alone));
  }
}

/// What the comparison of evaluations is to notice: one rank's part of the validation data.
TEST_F(DistributedRun, AnEvaluationOfAPartWouldBeNoticed) {
  const Config alone = small("alone");
  expect_runs(alone, 1);
  Config part = alone;
  part.run.out = (folder_ / "part").string();
  part.run.eval_batches = 1;
  expect_runs(part, 1);
  EXPECT_FALSE(evaluates_alike(part, alone));
}

TEST_F(DistributedRun, ResumesWithAnotherWorld) {
  Config c = small("run");
  c.precision.accumulate = "fixed";
  expect_runs(c, 2);
  const NamedParameters expected = parameters_of(c);
  expect_runs(c, 3, {"--resume", "3"});
  expect_same_bits(parameters_of(c), expected);
  EXPECT_EQ(steps_of(c).size(), 6U);
  EXPECT_EQ(steps_of(c).back()["world"], 3);
}

TEST_F(DistributedRun, RefusesARankWithAnotherConfigByKey) {
  const Config c = small("run");
  const Words same = command(c), other = command(c, {"--optim.lr=0.5"});
  for (const Program::Result& result : accrue::testing::run_ranks(
           folder_, 2, 2, [&](int rank) { return rank == 1 ? other : same; })) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.errors, HasSubstr("optim.lr: '0.01' on rank 0, '0.5' on rank 1"));
  }
  EXPECT_FALSE(RunDirectory(c.run.out).holds_run());
}

TEST_F(DistributedRun, RefusesARankThatDoesNotResumeWithTheOthers) {
  const Config c = small("run");
  const Words starts = command(c), resumes = command(c, {"--resume"});
  for (const Program::Result& result : accrue::testing::run_ranks(
           folder_, 2, 2, [&](int rank) { return rank == 1 ? resumes : starts; })) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.errors,
                HasSubstr("resume: 'no' on rank 0, 'the newest checkpoint' on rank 1"));
  }
}

TEST_F(DistributedRun, RefusesWhatRanksCannotDoAlikeBeforeTheRunDirectory) {
  Config c = small("run");
  c.optim.clip = 0;  // which does not go with folded gradients
  for (const auto& [changed, key] : std::vector<std::pair<std::string, std::string>>{
           {"--run.eval_every=\"90 s\"", "run.eval_every"},
           {"--memory.budget=auto", "memory.budget"},
           {"--memory.gradients=optimizer", "memory.gradients"},
           {"--precision.accumulate=bf16", "precision.accumulate"}}) {
    for (const Program::Result& result : run(c, 2, {changed})) {
      EXPECT_EQ(result.status, 2);
      EXPECT_THAT(result.errors, HasSubstr(key + " with 2 ranks"));
    }
    EXPECT_FALSE(RunDirectory(c.run.out).holds_run());
  }
}

TEST_F(DistributedRun, EndsOnAllRanksWhereOneIsKilled) {
  Config c = small("run");
  c.run.steps = 100000;
  const Words words = command(c);
  std::vector<Program> ranks =
      accrue::testing::start_ranks(folder_, 3, 3, [&](int) { return words; });
  wait_for_metrics(c);
  ::kill(ranks[1].process(), SIGKILL);
  for (const int rank : {0, 2}) {
    const Program::Result result = ranks[static_cast<std::size_t>(rank)].wait();
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, HasSubstr("no sign of life from rank 1"));
  }
  ranks[1].wait();
  ASSERT_FALSE(steps_of(c).empty());
  const std::int64_t last = RunDirectory(c.run.out).checkpoint_steps().back();
  EXPECT_EQ(last, steps_of(c).back()["step"]);
}

TEST_F(DistributedRun, StopsTogetherAfterASignalToOneRank) {
  Config c = small("run");
  c.run.steps = 100000;
  const Words words = command(c);
  std::vector<Program> ranks =
      accrue::testing::start_ranks(folder_, 2, 2, [&](int) { return words; });
  wait_for_metrics(c);
  ::kill(ranks[1].process(), SIGTERM);
  for (Program& rank : ranks) EXPECT_EQ(rank.wait().status, kInterrupted);
  ASSERT_FALSE(steps_of(c).empty());
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps().back(), steps_of(c).back()["step"]);
}

}  // namespace
}  // namespace accrue::train
