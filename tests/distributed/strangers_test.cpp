#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/distributed/group.h"
#include "distributed/ranks.h"

namespace accrue::distributed {
namespace {

using accrue::testing::Load;
using accrue::testing::numbers_of;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Results = std::vector<accrue::testing::Program::Result>;

const std::string kRunsToken = "correct horse battery staple",
                  kAnotherToken = "correct horse battery stable";
constexpr int kEndedBySigkill = 128 + 9;
constexpr double kHugeBytes = 12.0 * (8 << 20);

/// Real ranks, each with a token or none. In no test may a token appear in their output.
class StrangersTest : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  /// `settings_of(rank)`: variables of its environment, as NAME=VALUE. `load`: as of Program.
  static Results run(const Words& scenario, int world, int started,
                     const std::function<Words(int rank)>& settings_of, Load load = Load::once) {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    const std::filesystem::path folder =
        std::filesystem::path(::testing::TempDir()) /
        (std::string("accrue_") + test.name() + "_" + std::to_string(::getpid()));
    const auto command_of = [&](int rank) {
      Words command = settings_of(rank);
      command.emplace_back(accrue::testing::rank_program());
      command.insert(command.end(), scenario.begin(), scenario.end());
      return command;
    };
    Results results = accrue::testing::run_ranks(folder, world, started, command_of, load);
    std::filesystem::remove_all(folder);
    for (const auto& result : results)
      for (const std::string& token : {kRunsToken, kAnotherToken})
        EXPECT_THAT(result.output + result.errors, Not(HasSubstr(token)));
    return results;
  }
  static Results run_with_token(const Words& scenario, Load load = Load::once) {
    return run(
        scenario, 3, 3, [](int) { return with(kRunsToken); }, load);
  }
  static Words with(const std::string& token) { return {"ACCRUE_RUN_TOKEN=" + token}; }
};

TEST_F(StrangersTest, RanksWithOneTokenTrainTogether) {
  for (const auto& result : run_with_token({"collectives"})) {
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("[from 0.000000] [from 1.000000] [from 2.000000]"));
  }
}

TEST_F(StrangersTest, ARankWithAnotherTokenOrNoneIsNamed) {
  for (const Words& others : {with(kAnotherToken), Words()}) {
    const Results results =
        run({"connecting"}, 3, 3, [&](int rank) { return rank == 1 ? others : with(kRunsToken); });
    for (const int rank : {0, 1, 2}) {
      EXPECT_EQ(results[rank].status, 2);
      EXPECT_THAT(results[rank].errors,
                  AllOf(HasSubstr("try the same ACCRUE_RUN_TOKEN on all ranks"),
                        Not(HasSubstr("nothing from"))));
    }
    for (const int rank : {0, 2})
      EXPECT_THAT(results[rank].errors,
                  AllOf(HasSubstr("in the place of rank 1"), Not(HasSubstr("rank 2"))));
    // For that rank all others are strangers, and it names the first one that it reads.
    EXPECT_THAT(results[1].errors,
                AnyOf(HasSubstr("in the place of rank 0"), HasSubstr("in the place of rank 2")));
  }
}

TEST_F(StrangersTest, OneThatComesLateWithAnotherTokenOrNoneLearnsWhyNobodyHearsIt) {
  for (const Words& another : {with(kAnotherToken), Words()}) {
    const Results results = run({"late_stranger"}, 2, 3, [&](int rank) {
      if (rank < 2) return with(kRunsToken);
      Words late{"RANK=1", "LOCAL_RANK=1"};
      late.insert(late.end(), another.begin(), another.end());
      return late;
    });
    for (const int rank : {0, 1}) EXPECT_EQ(results[rank].status, 0) << results[rank].errors;
    EXPECT_EQ(results[2].status, 1);
    EXPECT_THAT(results[2].errors, HasSubstr("have another ACCRUE_RUN_TOKEN, or none"));
  }
}

TEST_F(StrangersTest, AForgedVerdictEndsNobody) {
  for (const auto& result : run_with_token({"forged_verdict", "go home"})) {
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.output, "stepped\n");
  }
}

TEST_F(StrangersTest, AVerdictWithTheRunsSealEndsAll) {
  for (const auto& result : run_with_token({"sealed_verdict", "go home"})) {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, HasSubstr("go home"));
    EXPECT_THAT(result.output, IsEmpty());
  }
}

TEST_F(StrangersTest, AForgedVerdictHidesNoFailure) {
  const Results results = run_with_token({"failing_after_a_forged_verdict"});
  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].status, 1);
    EXPECT_THAT(results[rank].errors,
                AllOf(HasSubstr("rank 1 failed: no room on the disk"), Not(HasSubstr("go home"))));
  }
}

TEST_F(StrangersTest, ATextThatSomebodyElseWroteIsRefusedByTheNameOfItsRank) {
  const Results results = run_with_token({"tampered_text", "from rank 1, really"});
  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].status, 1);
    EXPECT_THAT(results[rank].errors,
                AllOf(HasSubstr("greeting"), HasSubstr("in the place of rank 1"),
                      HasSubstr("another program writes into the store")));
  }
}

TEST_F(StrangersTest, AHugeTextIsRefusedWithoutItsMemory) {
  const Results refused = run_with_token({"huge_text"}, Load::anew);
  EXPECT_EQ(refused[2].status, 1);
  EXPECT_THAT(refused[2].errors, HasSubstr("in the place of rank 1"));
  EXPECT_LT(numbers_of(refused[2].output)["grew"].at(0), kHugeBytes / 8);
  const Results taken = run_with_token({"huge_text_by_c10d"}, Load::anew);
  EXPECT_GT(numbers_of(taken[2].output)["grew"].at(0), kHugeBytes / 2) << "what it would take";
}

TEST_F(StrangersTest, AForgedPlaceHidesNoDeath) {
  const Results results = run_with_token({"forged_place"});
  EXPECT_EQ(results[1].status, kEndedBySigkill);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].status, 1);
    EXPECT_THAT(results[rank].errors, HasSubstr("no sign of life from rank 1"));
  }
}

TEST_F(StrangersTest, AStoreThatOtherMachinesReachNeedsAToken) {
  // 192.0.2.0/24 is for documentation: no machine has it.
  const auto connect_at_outer_address = [](Words settings) {
    settings.emplace_back("MASTER_ADDR=192.0.2.1");
    return run({"connecting"}, 2, 1, [&](int) { return settings; }).front();
  };
  const auto without = connect_at_outer_address({});
  EXPECT_EQ(without.status, 2);
  EXPECT_THAT(without.errors,
              AllOf(HasSubstr("MASTER_ADDR '192.0.2.1'"),
                    HasSubstr("export ACCRUE_RUN_TOKEN=$(openssl rand -hex 16), the same one")));
  EXPECT_THAT(connect_at_outer_address(with(kRunsToken)).errors,
              AllOf(HasSubstr("none of this machine's"), Not(HasSubstr("ACCRUE_RUN_TOKEN"))));
}

}  // namespace
}  // namespace accrue::distributed
