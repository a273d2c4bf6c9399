// accrue compare: verdicts, exit status, and messages for runs that are hard to compare.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Compare : public AccrueProgram {
 protected:
  /// Writes a run of 20 steps that trained on tokens.
  void write_run(const std::string& name, double eval_loss, double tokens_per_second = 1000,
                 std::int64_t peak_bytes = 1'000'000) const {
    std::string lines;
    for (int step = 1; step <= 20; ++step)
      lines += json{{"step", step},        {"loss", eval_loss + 0.5},
                    {"seconds", 0.5},      {"tokens_per_second", tokens_per_second},
                    {"samples", step * 4}, {"peak_bytes", peak_bytes},
                    {"time", 1.7e9 + step}}
                   .dump() +
               "\n";
    write_files(name, lines + json{{"step", 20}, {"eval_loss", eval_loss}}.dump() + "\n");
  }
  void write_files(const std::string& name, const std::string& metrics) const {
    fs::create_directories(folder_ / name);
    write(name + "/metrics.jsonl", metrics);
    write(name + "/run.json", R"({"total_steps":20})");
  }

  json compared(Words arguments, int status) const {
    arguments.insert(arguments.begin(), "compare");
    arguments.push_back("--json");
    const auto result = accrue(std::move(arguments));
    EXPECT_EQ(result.status, status) << result.output << result.errors;
    EXPECT_EQ(result.errors, "");
    return json::parse(result.output);
  }
  std::string refusal_of(Words arguments) const {
    arguments.insert(arguments.begin(), "compare");
    const auto result = accrue(std::move(arguments));
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(result.errors, StartsWith("error: "));
    return result.errors;
  }
};

TEST_F(Compare, ATrainedRunMeetsItselfAndMissesABetterOne) {
  write_small_run();
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  const auto same = accrue({"compare", "out", "out"});
  EXPECT_EQ(same.status, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr("the baseline is met\n"));
  const json found = compared({"out", "--baseline", "out"}, 0);
  EXPECT_EQ(found["metrics"][0]["measure"], "eval_loss");
  for (const json& metric : found["metrics"]) {
    EXPECT_GT(metric["value"].get<double>(), 0) << metric;
    EXPECT_EQ(metric["difference"], 0) << metric;
  }
  fs::copy(folder_ / "out", folder_ / "better", fs::copy_options::recursive);
  std::ofstream(folder_ / "better" / "metrics.jsonl", std::ios::app)
      << R"({"step":4,"time":1,"eval_loss":0.5,"weight":1,"seconds":1})"
      << "\n";
  const auto missed = accrue({"compare", "out", "--baseline", "better"});
  EXPECT_EQ(missed.status, 3);
  EXPECT_THAT(missed.output, HasSubstr("the baseline is not met: loss\n"));
  EXPECT_EQ(accrue({"compare", "better", "out"}).status, 0) << "the second is the baseline";
}

TEST_F(Compare, PrintsAsMuchAsAPipelineNeeds) {
  write_run("new", 2.02, 990, 1'000'000);
  write_run("old", 2.00, 1000, 1'000'000);
  const json found = compared({"new", "old"}, 3);
  EXPECT_EQ(found["met"], false);
  ASSERT_EQ(found["metrics"].size(), 3U);
  const json& loss = found["metrics"][0];
  EXPECT_EQ(loss["name"], "loss");
  EXPECT_EQ(loss["value"], 2.02);
  EXPECT_EQ(loss["baseline"], 2.00);
  EXPECT_NEAR(loss["difference"].get<double>(), 0.01, 1e-12);
  EXPECT_EQ(loss["allowed"], 0.005);
  EXPECT_EQ(loss["met"], false);
  EXPECT_EQ(found["metrics"][1]["name"], "speed");
  EXPECT_NEAR(found["metrics"][1]["difference"].get<double>(), -0.01, 1e-12);
  EXPECT_EQ(found["metrics"][1]["met"], true);
  EXPECT_EQ(found["metrics"][2]["value"], 1'000'000);
}

TEST_F(Compare, TakesAllowancesAsSharesOrOff) {
  write_run("new", 2.02, 900);
  write_run("old", 2.00, 1000);
  EXPECT_EQ(compared({"new", "old", "--loss=2%"}, 3)["metrics"][0]["met"], true);
  EXPECT_EQ(compared({"new", "old", "--loss=0.02", "--speed=15%"}, 0)["metrics"].size(), 3U);
  EXPECT_EQ(compared({"new", "old", "--loss=2%", "--speed=off"}, 0)["metrics"].size(), 2U);
  EXPECT_THAT(refusal_of({"new", "old", "--loss=2"}), HasSubstr("try --loss=2%"));
  EXPECT_THAT(refusal_of({"new", "old", "--speed=fast"}), HasSubstr("compare --speed"));
  EXPECT_THAT(refusal_of({"new", "old", "--loss=off", "--speed=off", "--memory=off"}),
              HasSubstr("something to compare"));
}

TEST_F(Compare, SeedsAreComparedByTheirMeans) {
  write_run("new-1", 2.00);
  write_run("new-2", 2.06);
  write_run("old-1", 1.98);
  write_run("old-2", 2.04);
  const json found = compared({"new-1", "new-2", "--baseline", "old-1", "old-2"}, 0);
  const json& loss = found["metrics"][0];
  EXPECT_NEAR(loss["value"].get<double>(), 2.03, 1e-12);
  EXPECT_NEAR(loss["baseline"].get<double>(), 2.01, 1e-12);
  EXPECT_GT(loss["standard_error"].get<double>(), loss["difference"].get<double>());
  EXPECT_NEAR(loss["deviation"]["value"].get<double>(), 0.0424264, 1e-6);
  EXPECT_THAT(accrue({"compare", "new-1", "new-2", "--baseline", "old-1", "old-2"}).output,
              AllOf(HasSubstr("mean of 2"), HasSubstr("2.03 +- 0.0424"),
                    HasSubstr("within the standard error")));
  EXPECT_EQ(compared({"new-1", "--baseline", "old-1"}, 3)["metrics"][0]["met"], false)
      << "one run a side has no scatter to hide behind";
}

TEST_F(Compare, WhatOneSideLacksIsSaidAndNotMet) {
  write_run("old", 2);
  write_files("new", "{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"loss\":2.5}\n{\"st");
  const json found = compared({"new", "old"}, 3);
  EXPECT_EQ(found["metrics"][0]["measure"], "train_loss");
  EXPECT_EQ(found["metrics"][0]["met"], true) << "2.5 is the baseline's training loss, too";
  for (const int metric : {1, 2}) {
    EXPECT_EQ(found["metrics"][metric]["met"], false);
    EXPECT_FALSE(found["metrics"][metric].contains("value"));
    EXPECT_THAT(found["metrics"][metric]["reason"].get<std::string>(), HasSubstr("new does not"));
  }
  for (const char* remark : {"no evaluation of new", "new is stopped, at step 2 of 20",
                             "new/metrics.jsonl: the last line is half-written"})
    EXPECT_THAT(found["remarks"].get<Words>(), Contains(HasSubstr(remark)));
}

TEST_F(Compare, TokensAndImagesHaveNoCommonSpeed) {
  write_run("text", 2);
  std::string lines;
  for (int step = 1; step <= 4; ++step)
    lines += json{{"step", step},
                  {"loss", 2.5},
                  {"seconds", 2},
                  {"samples", step * 64},
                  {"peak_bytes", 1'000'000}}
                 .dump() +
             "\n";
  write_files("images", lines);
  const auto result = accrue({"compare", "images", "text"});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.output, AllOf(HasSubstr("no common speed"), HasSubstr("memory")));
  EXPECT_EQ(compared({"images", "text", "--speed=off"}, 0)["met"], true);
  EXPECT_EQ(compared({"images", "images"}, 0)["metrics"][1]["value"], 32);
}

TEST_F(Compare, RefusesWhatIsNoComparison) {
  write_run("new", 2);
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(refusal_of({}), HasSubstr("0 runs and no --baseline"));
  EXPECT_THAT(refusal_of({"new"}), HasSubstr("1 run and no --baseline"));
  EXPECT_THAT(refusal_of({"new", "new", "new"}), HasSubstr("3 runs and no --baseline"));
  EXPECT_THAT(refusal_of({"--baseline", "new", "new"}), HasSubstr("no run before --baseline"));
  EXPECT_THAT(refusal_of({"new", "empty"}),
              AllOf(HasSubstr("read run empty"), HasSubstr("a folder without them")));
  EXPECT_THAT(refusal_of({"nowhere", "new"}), HasSubstr("no such folder"));
  EXPECT_THAT(refusal_of({"new", "new", "--los=1%"}), HasSubstr("try --loss 1%\n"));
}

TEST_F(Compare, AnEmptyRunIsARunWithoutMetrics) {
  write_run("old", 2);
  write_files("new", "");
  const json found = compared({"new", "old"}, 3);
  for (const json& metric : found["metrics"]) EXPECT_EQ(metric["met"], false) << metric;
  EXPECT_THAT(found["remarks"].get<Words>(), Contains(HasSubstr("no step in it")));
}

}  // namespace
}  // namespace accrue::testing
