#include "observe/report/run_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace accrue::observe {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Pair;

json whole_run() {
  return {
      {"versions", {{"accrue", "0.1.0"}}},
      {"machine", {{"processor", "AMD EPYC"}, {"threads", 2}}},
      {"seed", 1337},
      {"command", {"accrue", "train", "gpt.toml"}},
      {"parameters", 10'800'000},
      {"unit", "tokens"},
      {"config", {{"model", {{"kind", "gpt2"}, {"layers", 6}, {"width", 384}, {"context", 256}}}}},
      {"data", {{"train", {{{"path", "a.txt"}, {"bytes", 1024}}}}}},
      {"plan",
       {{"micro_batch", 4},
        {"recompute", "none"},
        {"predicted_peak_bytes", 2000},
        {"seconds_per_step", 0.5},
        {"reason", "the fastest"},
        {"effective_batch",
         {{"micro_batch", 4},
          {"accumulation_steps", 16},
          {"ranks", 2},
          {"samples", 128},
          {"tokens", 32768}}},
        {"alternatives",
         {{{"micro_batch", 8},
           {"recompute", "none"},
           {"predicted_peak_bytes", 3000},
           {"predicted_seconds_per_batch", 0.4},
           {"within_limit", false}},
          {{"micro_batch", 2},
           {"recompute", "none"},
           {"predicted_peak_bytes", 1000},
           {"seconds_per_step", 0.7}}}}}}};
}

RunDescription description(const json& run_json) {
  RunHistory run;
  run.run_json = run_json.dump();
  return description_of(run);
}

TEST(RunDescription, SaysModelAndBatchInWords) {
  const RunDescription run = description(whole_run());
  EXPECT_EQ(run.model, "GPT-2, 10.8 M parameters, 6 layers, width 384, context 256");
  EXPECT_EQ(run.batch, "4 samples x 16 accumulation steps x 2 ranks = 128 samples, 32,768 tokens");
  EXPECT_EQ(run.unit, "tokens");
}

TEST(RunDescription, HasTheEnvironmentAsFarAsItIsTold) {
  EXPECT_THAT(description(whole_run()).environment,
              AllOf(Contains(Pair("Processor", "AMD EPYC")), Contains(Pair("Threads", "2")),
                    Contains(Pair("Command", "accrue train gpt.toml")),
                    Contains(Pair("Training data", "1 file, 1.00 KiB: a.txt"))));
  EXPECT_THAT(description(json::object()).environment, IsEmpty());
}

/// Ranks agree on the smallest of their micro-batches, which may differ from these trials' choice.
TEST(RunDescription, KnowsOfAnAgreedPlanWhatItsAlternativeTells) {
  json run = whole_run();
  run["plan"]["micro_batch"] = 2;
  run["plan"]["budget_bytes"] = 4000;
  run["plan"].erase("predicted_peak_bytes");
  run["plan"].erase("seconds_per_step");
  const PlanDescription plan = *description(run).plan;
  ASSERT_EQ(plan.choices.size(), 2U);
  EXPECT_TRUE(plan.choices[0].is_chosen);
  EXPECT_EQ(plan.choices[0].peak_bytes, 1000);
  EXPECT_EQ(plan.choices[0].seconds_per_step, 0.7);
  EXPECT_EQ(plan.budget_bytes, 4000);
}

TEST(RunDescription, PutsTheChosenPlanAmongItsAlternatives) {
  const PlanDescription plan = *description(whole_run()).plan;
  ASSERT_EQ(plan.choices.size(), 3U);
  EXPECT_EQ(plan.choices[0].micro_batch, 2);
  EXPECT_TRUE(plan.choices[1].is_chosen);
  EXPECT_FALSE(plan.choices[0].is_chosen);
  EXPECT_FALSE(plan.choices[2].within_budget);
  EXPECT_EQ(plan.choices[2].seconds_per_step, 0.4);
  EXPECT_FALSE(plan.budget_bytes);
}

TEST(RunDescription, ABatchThatIsNoProductHasNoProduct) {
  json run = whole_run();
  run["plan"]["effective_batch"]["by_rank"] = json::array({{{"samples", 3}}});
  EXPECT_EQ(description(run).batch, "");
}

/// A run.json of another version, or a damaged one: each field has a wrong type.
TEST(RunDescription, LeavesOutWhatIsOfAnotherType) {
  const json strange{{"versions", 7},
                     {"machine", {{"threads", {1, 2}}}},
                     {"command", "accrue train"},
                     {"parameters", "many"},
                     {"plan", {1, 2, 3}},
                     {"data", {{"train", {1, "x", nullptr}}}},
                     {"resumed", {3, "x"}},
                     {"unit", 3.5},
                     {"ended", true}};
  const RunDescription run = description(strange);
  EXPECT_FALSE(run.plan);
  EXPECT_EQ(run.batch, "");
  json entries = whole_run();
  entries["plan"]["alternatives"] = {1, "x", nullptr, {{"micro_batch", "8"}}};
  EXPECT_TRUE(description(entries).plan);
}

}  // namespace
}  // namespace accrue::observe
