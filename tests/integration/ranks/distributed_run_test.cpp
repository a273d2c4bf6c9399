#include "integration/ranks/distributed_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace accrue::train {
namespace {

using accrue::testing::Program;
using accrue::testing::wait_until;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using testing::DistributedRun;
using ::testing::HasSubstr;
using testing::kInterrupted;
using ::testing::StartsWith;
using testing::Words;

TEST_F(DistributedRun, HasTheBitsOfOneProcessInFixedPoint) {
  Config alone = small("alone");
  alone.precision.accumulate = accum::Accumulation::fixed;
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
  for (const Reduce reduce : {Reduce::overlap, Reduce::end}) {
    Config c = alone;
    c.run.out = (folder_ / reduce_words.of(reduce)).string();
    c.dist.reduce = reduce;
    expect_runs(c, 2);
    EXPECT_TRUE(are_close(c, alone));
    EXPECT_TRUE(evaluates_alike(c, alone));
  }
}

TEST_F(DistributedRun, ShowsTheSharesOfRanksInTheLiveView) {
  Config c = small("run");
  c.observe.progress = observe::ProgressStyle::live;
  const std::vector<Program::Result> results = run(c, 2);
  for (const Program::Result& result : results) EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(results.front().errors, HasSubstr("ranks   4 + 3 samples"));
  EXPECT_THAT(results.back().errors, ::testing::Not(HasSubstr("step  "))) << "the first one tells";
}

/// Two micro-batches of two samples on each of two ranks form a batch of eight samples.
TEST_F(DistributedRun, TakesABatchInMicroBatchesOfEachRank) {
  Config alone = small("alone");
  alone.batch.tokens = 8 * *alone.model.context;
  expect_runs(alone, 1);
  Config c = alone;
  c.run.out = (folder_ / "run").string();
  c.batch.tokens.reset();
  c.batch.micro_batches = 2;
  expect_runs(c, 2);
  Config in_tokens = alone;
  in_tokens.run.out = c.run.out;
  EXPECT_TRUE(are_close(in_tokens, alone));
  EXPECT_EQ(steps_of(c).front()["micro_batches"], 4);
  EXPECT_EQ(RunDirectory(c.run.out).config().batch.samples, 8);

  expect_runs(c, 2, {"--resume", "3"});
  const Program::Result fewer = run(c, 1, {"--resume"}).front();
  EXPECT_EQ(fewer.status, 2);
  EXPECT_THAT(fewer.errors, HasSubstr("batch.samples = 4 (was 8)"));
}

/// Memory would suffice for the whole batch at once; the second rank would then have no work.
TEST_F(DistributedRun, PlansForARanksPart) {
  Config c = small("run");
  c.batch.micro.reset();
  c.batch.tokens = 8 * *c.model.context;
  expect_runs(c, 2);
  const nlohmann::json first = steps_of(c).front();
  EXPECT_LE(first["micro_batch"], 4);
  EXPECT_GE(first["micro_batches"], 2);
  Config dry = c;
  dry.run.out = (folder_ / "dry").string();
  const auto results = run(dry, 2, {"--dry-run"});
  EXPECT_EQ(results[0].status, 0) << results[0].errors;
  // Ranks whose trials took different times may have micro-batches of different sizes.
  EXPECT_THAT(results[0].output, AnyOf(HasSubstr(" x 2 ranks = 8 samples, "),
                                       ContainsRegex("1 rank x .* \\+ 1 rank x .* = 8 samples, ")));
  EXPECT_EQ(results[1].status, 0) << results[1].errors;
  EXPECT_EQ(results[1].output, "") << "the first rank speaks";
}

TEST_F(DistributedRun, SaysThatARankHasNothingToDo) {
  Config c = small("run");
  c.batch.tokens = 8 * *c.model.context;
  c.batch.micro = 8;
  expect_runs(c, 2);
  ASSERT_EQ(events_of("dist", c).size(), 1U);
  const std::string reason = events_of("dist", c)[0]["reason"];
  EXPECT_THAT(reason, HasSubstr("1 of 2 ranks has nothing to do"));
  EXPECT_THAT(reason, HasSubstr("1 rank x (8) + 1 rank x (0) = 8 samples"));
  EXPECT_THAT(reason, HasSubstr("batch.micro = 4, or less"));
  c.run.out = (folder_ / "both").string();
  c.batch.micro = 4;
  expect_runs(c, 2);
  EXPECT_TRUE(events_of("dist", c).empty());
}

/// The comparison of evaluations must detect this: an evaluation of one rank's part only.
TEST_F(DistributedRun, AnEvaluationOfAPartWouldBeNoticed) {
  const Config alone = small("alone");
  expect_runs(alone, 1);
  Config part = alone;
  part.run.out = (folder_ / "part").string();
  part.run.eval_batches = 1;
  expect_runs(part, 1);
  EXPECT_FALSE(evaluates_alike(part, alone));
}

/// The comparison of parameters must detect this: steps that are five percent too long.
TEST_F(DistributedRun, StepsOfAnotherLengthWouldBeNoticedInEveryParameter) {
  const Config alone = small("alone");
  expect_runs(alone, 1);
  Config longer = alone;
  longer.run.out = (folder_ / "longer").string();
  longer.optim.lr *= 1.05;
  expect_runs(longer, 1);
  for (const ::testing::AssertionResult& result : comparisons(longer, parameters_of(alone)))
    EXPECT_FALSE(result);
}

TEST_F(DistributedRun, GoesOnLongerThanItWas) {
  Config alone = small("alone");
  alone.precision.accumulate = accum::Accumulation::fixed;
  alone.optim.schedule.kind = optim::ScheduleKind::constant;
  Config c = alone;
  c.run.out = (folder_ / "run").string();
  c.run.steps = 2;
  expect_runs(alone, 1);
  expect_runs(c, 2);
  expect_runs(c, 2, {"--resume", "--run.steps=" + std::to_string(*alone.run.steps)});
  expect_same_bits(parameters_of(c), parameters_of(alone));
  EXPECT_EQ(RunDirectory(c.run.out).config().run.steps, alone.run.steps);
}

TEST_F(DistributedRun, ResumesWithAnotherWorld) {
  Config c = small("run");
  c.precision.accumulate = accum::Accumulation::fixed;
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
    EXPECT_THAT(result.errors, HasSubstr("optim.lr: '0.1' on rank 0, '0.5' on rank 1"));
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
  c.optim.clip = 0;  // which is incompatible with folded gradients
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

/// The number in `text` after `words`.
std::int64_t number_behind(const std::string& words, const std::string& text) {
  const std::size_t at = text.find(words);
  if (at == std::string::npos) return -1;
  return std::stoll(text.substr(at + words.size()));
}

TEST_F(DistributedRun, DividesAnAutomaticBudgetByTheRanksThatShareTheMachine) {
  const Config c = small("run");
  Words shares{"/usr/bin/env", "LOCAL_WORLD_SIZE=2"};
  for (const std::string& word : command(c, {"--memory.budget=auto", "--dry-run"}))
    shares.push_back(word);
  const auto unknown = run(c, 2, {"--memory.budget=auto"});
  EXPECT_EQ(unknown[0].status, 2);
  EXPECT_THAT(unknown[0].errors, HasSubstr("LOCAL_WORLD_SIZE"));
  const std::int64_t advised = number_behind("try budget = \"", unknown[0].errors);
  EXPECT_GT(advised, 0) << unknown[0].errors;

  const auto known = accrue::testing::run_ranks(folder_, 2, 2, [&](int) { return shares; });
  EXPECT_EQ(known[0].status, 0) << known[0].errors;
  EXPECT_THAT(known[0].errors, HasSubstr("MiB for each of the 2 ranks on this machine"));
  EXPECT_GT(number_behind("memory.budget = \"auto\": ", known[0].errors), 0);
  EXPECT_EQ(known[1].status, 0) << known[1].errors;
}

/// The second rank is never started: the first one would wait for it until dist.timeout.
TEST_F(DistributedRun, RefusesWhatItsConfigRulesOutBeforeItMeetsOthers) {
  const Config c = small("run");
  Config in_stages = c;
  in_stages.dist.stages = 3;
  const auto expect_refused = [&](const std::vector<std::string>& command_line,
                                  const std::string& expected) {
    const auto refused =
        accrue::testing::run_ranks(folder_, 2, 1, [&](int) { return command_line; });
    EXPECT_EQ(refused.front().status, 2) << expected;
    EXPECT_THAT(refused.front().errors, HasSubstr(expected));
  };
  expect_refused(command(in_stages, {}), "dist.stages with 2 ranks");
  const std::vector<std::pair<std::string, std::string>> rows{
      {"--dist.min_ranks=3", "dist.min_ranks with 2 ranks"},
      {"--memory.budget=auto", "memory.budget with 2 ranks"},
      {"--run.eval_every=\"1 min\"", "run.eval_every with 2 ranks"},
      {"--dist.backend=nccl", "dist.backend with 2 ranks"}};
  for (const auto& [word, expected] : rows) expect_refused(command(c, {word}), expected);
  EXPECT_FALSE(std::filesystem::exists(c.run.out));
}

TEST_F(DistributedRun, TellsOfEventsOfOtherRanks) {
  Config c = small("run");
  c.run.steps = 100000;
  const std::string file = (folder_ / "budget").string();
  const Words words = command(c), watching = command(c, {"--memory.budget_file=" + file});
  std::vector<Program> ranks = accrue::testing::start_ranks(
      folder_, 2, 2, [&](int rank) { return rank == 1 ? watching : words; });
  wait_for_metrics(c);
  write_file_atomically(file, "1GiB");
  wait_until([&] { return !events_of("budget", c).empty(); });
  ::kill(ranks[0].process(), SIGTERM);
  for (Program& rank : ranks) EXPECT_EQ(rank.wait().status, kInterrupted);
  EXPECT_THAT(events_of("budget", c)[0]["reason"].get<std::string>(), StartsWith("rank 1: "));
}

}  // namespace
}  // namespace accrue::train
