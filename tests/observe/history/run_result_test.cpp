#include "observe/history/run_result.h"

#include <gmock/gmock.h>

#include "observe/history/run_folder.h"

namespace accrue::observe {
namespace {

using ::testing::DoubleEq;
using ::testing::Optional;

/// A run whose losses are 1, 2, 3 ... by step.
RunHistory run_of(std::int64_t steps) {
  RunHistory run;
  run.name = "first";
  run.state = RunState::done;
  for (std::int64_t step = 1; step <= steps; ++step) {
    run.table.steps.push_back(step);
    run.table.columns["loss"].push_back(static_cast<double>(step));
  }
  return run;
}

TEST(RunResult, TakesTheTrainingLossOfTheLastTenth) {
  EXPECT_THAT(result_of(run_of(40)).train_loss, Optional(DoubleEq((37 + 38 + 39 + 40) / 4.)));
  EXPECT_THAT(result_of(run_of(19)).train_loss, Optional(DoubleEq(19)));
  EXPECT_THAT(result_of(run_of(1)).train_loss, Optional(DoubleEq(1)));
  EXPECT_FALSE(result_of(run_of(0)).train_loss);
}

TEST(RunResult, WeighsTheLossesOfTheLastTenth) {
  RunHistory run = run_of(30);
  auto& weights = run.table.columns["weight"];
  weights.assign(30, 1);
  weights[27] = 4;
  EXPECT_THAT(result_of(run).train_loss, Optional(DoubleEq((28 * 4 + 29 + 30) / 6.)));
  weights[28] = none;
  EXPECT_THAT(result_of(run).train_loss, Optional(DoubleEq((28 + 29 + 30) / 3.)))
      << "not all have a weight";
  weights[28] = 1;
  run.table.columns["loss"][29] = none;
  weights[29] = 0;
  EXPECT_THAT(result_of(run).train_loss, Optional(DoubleEq((28 * 4 + 29) / 5.)))
      << "a step without a loss counts for nothing";
  EXPECT_THAT(result_of(run).last_loss, Optional(DoubleEq(29)));
}

TEST(RunResult, TakesTheLastEvaluation) {
  RunHistory run = run_of(10);
  run.evaluations = {{.step = 5, .loss = 2.5}, {.step = 10, .loss = 2.25}};
  EXPECT_THAT(result_of(run).eval_loss, Optional(DoubleEq(2.25)));
  EXPECT_EQ(result_of(run).eval_step, 10);
  EXPECT_FALSE(result_of(run).diverged);
  run.events = {{.step = 5, .name = "evaluation"}};
  EXPECT_FALSE(result_of(run).diverged) << "a finite one came after it";
  run.events = {{.step = 11, .name = "budget"}, {.step = 12, .name = "evaluation"}};
  EXPECT_TRUE(result_of(run).diverged);
  run.evaluations.clear();
  EXPECT_TRUE(result_of(run).diverged);
}

TEST(RunResult, LeavesTheFirstStepOfEachAttemptOutOfTheSpeed) {
  RunHistory run = run_of(6);
  run.table.columns["tokens_per_second"] = {1, 10, 10, 1, 10, 10};
  run.table.columns["seconds"].assign(6, 2);
  run.run_json = R"({"resumed":[{"step":3},{"step":"odd"},5]})";
  EXPECT_DOUBLE_EQ(result_of(run).speed->per_second, 10);
}

TEST(RunResult, TakesTheLargestPeak) {
  RunHistory run = run_of(4);
  EXPECT_FALSE(result_of(run).peak_bytes);
  run.table.columns["peak_bytes"] = {none, 7, 9, 8};
  EXPECT_THAT(result_of(run).peak_bytes, Optional(DoubleEq(9)));
}

TEST(RunResult, TellsStartAndEnd) {
  RunHistory run = run_of(2);
  EXPECT_FALSE(result_of(run).started);
  run.table.columns["time"] = {1767225600, 1767225661.5};
  EXPECT_EQ(result_of(run).started, "2026-01-01T00:00:00Z");
  EXPECT_EQ(result_of(run).ended, "2026-01-01T00:01:01Z");
  run.run_json = R"({"started":"2025-12-31T23:59:00Z","ended":{"time":"2026-01-01T00:02:00Z"}})";
  EXPECT_EQ(result_of(run).started, "2025-12-31T23:59:00Z");
  EXPECT_EQ(result_of(run).ended, "2026-01-01T00:02:00Z");
  run.run_json = R"({"started":5,"ended":{"time":"2025-01-01T00:02:00Z"}})";
  EXPECT_EQ(result_of(run).started, "1970-01-01T00:00:05Z");
  EXPECT_EQ(result_of(run).ended, "2026-01-01T00:01:01Z") << "it went on after that end";
  run.state = RunState::running;
  EXPECT_FALSE(result_of(run).ended);
  run.run_json = R"({"started":1e300})";
  run.table.columns.erase("time");
  EXPECT_FALSE(result_of(run).started);
}

TEST(RunResult, TellsTheMachineAndTheDataThatItWasEvaluatedOn) {
  RunHistory run = run_of(2);
  EXPECT_EQ(result_of(run).machine, "");
  EXPECT_EQ(result_of(run).evaluated_on, "");
  run.run_json = R"({"machine":{"processor":"EPYC","threads":2},)"
                 R"("data":{"val":[{"path":"a","fingerprint":"x"},{"fingerprint":7}]}})";
  EXPECT_EQ(result_of(run).machine, "EPYC, 2 threads");
  EXPECT_EQ(result_of(run).evaluated_on, "\"x\" 7 ");
}

}  // namespace
}  // namespace accrue::observe
