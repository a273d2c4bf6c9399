#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

class VerifyVerb : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }
  struct Outcome {
    int status = -1;
    nlohmann::json report;
  };
  Outcome verify(Words more = {}) const {
    Words words{"verify", "run.toml", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = accrue(words);
    EXPECT_NE(result.output, "") << result.errors;
    return {result.status, nlohmann::json::parse(result.output)};
  }
  static void expect_equal(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.report.dump(1);
    EXPECT_EQ(outcome.report.at("equal"), true);
    EXPECT_EQ(outcome.report.at("cause"), "none");
    EXPECT_LE(outcome.report.at("max_relative_error").get<double>(),
              outcome.report.at("bound").get<double>());
  }
  static void expect_cause(const Outcome& outcome, const std::string& cause) {
    EXPECT_EQ(outcome.status, 3) << outcome.report.dump(1);
    EXPECT_EQ(outcome.report.at("equal"), false);
    EXPECT_EQ(outcome.report.at("cause"), cause) << outcome.report.dump(1);
    EXPECT_GT(outcome.report.at("max_relative_error").get<double>(),
              outcome.report.at("bound").get<double>());
    EXPECT_FALSE(outcome.report.at("evidence").empty());
  }
};

TEST_F(VerifyVerb, PassesASoundRunAndWritesNothing) {
  const Outcome outcome = verify();
  expect_equal(outcome);
  EXPECT_GE(outcome.report.at("splits").size(), 8u);
  EXPECT_EQ(outcome.report.at("steps").at("equal"), true);
  ASSERT_FALSE(outcome.report.at("parameters").empty());
  for (const auto& parameter : outcome.report.at("parameters")) {
    EXPECT_FALSE(parameter.at("name").get<std::string>().empty());
    EXPECT_LE(parameter.at("relative_error").get<double>(), parameter.at("bound").get<double>());
  }
  EXPECT_TRUE(outcome.report.at("skipped").empty());
  for (const auto& split : outcome.report.at("splits")) {
    EXPECT_GE(split.at("largest_error"), split.at("relative_error"));
    EXPECT_LE(split.at("largest_error"), split.at("largest_bound"));
  }
  EXPECT_LT(outcome.report.at("bound").get<double>(), 1e-3);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(VerifyVerb, PassesAccruesOwnDropoutWhichDoesNotDependOnTheSplit) {
  expect_equal(verify({"--model.dropout=0.2"}));
}

TEST_F(VerifyVerb, PassesTheOtherPrecisions) {
  expect_equal(verify({"--precision.compute=bf16"}));
  const Outcome fp64 = verify({"--precision.compute=fp64"});
  expect_equal(fp64);
  EXPECT_LT(fp64.report.at("max_relative_error").get<double>(), 1e-12);
  expect_equal(verify({"--precision.accumulate=fixed"}));
}

TEST_F(VerifyVerb, SaysWhatItWouldHaveNoticedAndWhatItLeftOut) {
  const Outcome outcome = verify();
  expect_equal(outcome);
  EXPECT_EQ(outcome.report.at("conclusive"), true);
  EXPECT_TRUE(outcome.report.at("left_out").empty()) << outcome.report.at("left_out");
  ASSERT_GE(outcome.report.at("smallest_fault").size(), 4u);
  for (const auto& fault : outcome.report.at("smallest_fault")) {
    EXPECT_FALSE(fault.at("kind").get<std::string>().empty());
    EXPECT_GT(fault.at("relative").get<double>(), 0);
    EXPECT_LT(fault.at("relative").get<double>(), 0.05) << fault;
  }
  expect_equal(verify({"--thorough"}));
  const auto table = accrue({"verify", "run.toml"});
  EXPECT_THAT(table.output, ::testing::HasSubstr("Smallest faults that it would have noticed"));
}

TEST_F(VerifyVerb, DoesNotSayEqualWhereStepsWereLeftOut) {
  const auto result = accrue({"verify", "run.toml", "--optim.kind=adama", "--optim.clip=0"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, ::testing::HasSubstr("No difference in what was compared"));
  EXPECT_THAT(result.output, ::testing::HasSubstr("left out: optimizer steps"));
  EXPECT_THAT(result.output, ::testing::Not(::testing::HasSubstr("Equal: ")));
}

TEST_F(VerifyVerb, DoesNotSayEqualWhereRanksThatWereAskedForAreSkipped) {
  const auto result = accrue({"verify", "run.toml", "--ranks=2", "--dist.compress=int8"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, ::testing::HasSubstr("No difference in what was compared"));
  EXPECT_THAT(result.output, ::testing::HasSubstr("left out: 2 ranks"));
  EXPECT_THAT(result.output, ::testing::Not(::testing::HasSubstr("Equal: ")));
}

TEST_F(VerifyVerb, SaysWhichFixedPointSumsAreNotComparedToTheUnit) {
  const Outcome outcome = verify({"--precision.accumulate=fixed"});
  expect_equal(outcome);
  EXPECT_THAT(outcome.report.at("left_out").dump(), ::testing::HasSubstr("wte.weight"));
}

/// Status 3 means that a difference was found, which a too small budget is not.
TEST_F(VerifyVerb, ABudgetThatCannotBeMetIsNoDifference) {
  std::int64_t ended_otherwise = 0;
  for (const char* budget : {"--memory.budget=170MB", "--memory.budget=185MB"}) {
    const auto result = accrue({"verify", "run.toml", budget});
    EXPECT_TRUE(result.status == 0 || result.status == 1) << result.status << result.errors;
    ended_otherwise += result.status != 0;
    if (result.status != 0) {
      EXPECT_THAT(result.errors, ::testing::HasSubstr("memory.budget"));
    }
  }
  EXPECT_GT(ended_otherwise, 0) << "a smaller budget is needed here";
}

TEST_F(VerifyVerb, NamesABf16SumThatStalls) {
  expect_cause(verify({"--precision.accumulate=bf16", "--batch.micro=1", "--batch.samples=256"}),
               "precision");
}

TEST_F(VerifyVerb, ReadsAsATableForPeople) {
  const auto result = accrue({"verify", "run.toml"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, ::testing::ContainsRegex("samples +largest error +its bound"));
  EXPECT_THAT(result.output,
              ::testing::ContainsRegex("micro-batches of 3 +[0-9]+ +[0-9.]+e-[0-9]+ +[0-9.]+e-"));
  EXPECT_THAT(result.output, ::testing::Not(::testing::HasSubstr("What to do")));
  EXPECT_THAT(result.output, ::testing::HasSubstr("Equal: "));
  EXPECT_THAT(result.errors, ::testing::HasSubstr("optimizer steps")) << "progress";
}

TEST_F(VerifyVerb, SaysInOneLineWhatToDoAboutADifference) {
  const auto result = accrue({"verify", "run.toml", "--precision.accumulate=bf16",
                              "--batch.micro=1", "--batch.samples=256"});
  EXPECT_EQ(result.status, 3) << result.errors;
  EXPECT_THAT(result.output,
              ::testing::ContainsRegex("What to do: keep sums [^\n]*precision.accumulate"));
}

TEST_F(VerifyVerb, ComparesWhatRanksAddUpWhereTheyAreAskedFor) {
  const Outcome outcome = verify({"--ranks=2", "--batch.micro=2"});
  expect_equal(outcome);
  std::size_t compared = 0;
  for (const char* list : {"splits", "skipped"})  // by a build without process groups
    for (const auto& split : outcome.report.at(list))
      compared += split.at("name") == "2 ranks, micro-batches of 2";
  EXPECT_EQ(compared, 1u);
  EXPECT_EQ(accrue({"verify", "run.toml", "--ranks=0"}).status, 2);
}

TEST_F(VerifyVerb, RefusesABatchThatCannotBeSplit) {
  const auto result = accrue({"verify", "run.toml", "--batch.samples=1"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, ::testing::HasSubstr("at least 2 samples"));
}

}  // namespace
}  // namespace accrue::testing
