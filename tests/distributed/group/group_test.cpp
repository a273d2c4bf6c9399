#include "accrue/distributed/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distributed/group/membership/post_mortem.h"
#include "distributed/ranks.h"

namespace accrue::distributed {
namespace {

using accrue::testing::numbers_of;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Results = std::vector<accrue::testing::Program::Result>;

constexpr int kKilled = 128 + 9;

class GroupTest : public ::testing::Test {
 protected:
  static std::filesystem::path folder_of(const std::string& scenario, int world) {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    return std::filesystem::path(::testing::TempDir()) /
           (std::string("accrue_") + test.name() + scenario + std::to_string(world) + "_" +
            std::to_string(::getpid()));
  }
  Results run(const std::string& scenario, int world, int started) {
    const std::filesystem::path folder = folder_of(scenario, world);
    Results results = accrue::testing::run_ranks(folder, world, started, [&](int) {
      return std::vector<std::string>{accrue::testing::rank_program(), scenario};
    });
    std::filesystem::remove_all(folder);
    return results;
  }
  /// Results of the ranks that live on when `rank` freezes itself; that one is killed after them.
  Results run_with_frozen(int rank, const std::string& scenario, int world) {
    const std::filesystem::path folder = folder_of(scenario, world);
    auto programs = accrue::testing::start_ranks(folder, world, world, [&](int) {
      return std::vector<std::string>{accrue::testing::rank_program(), scenario};
    });
    Results results;
    for (int other = 0; other < world; ++other)
      if (other != rank) results.push_back(programs[static_cast<std::size_t>(other)].wait());
    ::kill(programs[static_cast<std::size_t>(rank)].process(), SIGKILL);
    EXPECT_EQ(programs[static_cast<std::size_t>(rank)].wait().status, kKilled) << "it was frozen";
    std::filesystem::remove_all(folder);
    return results;
  }
  Results run(const std::string& scenario, int world) { return run(scenario, world, world); }
};

TEST_F(GroupTest, RanksHearTheLargestNumberThatOneAnnounced) {
  for (const auto& result : run("announced", 3)) {
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.output, "before 0\nheard 3\nheard 9\nheard 9\n");
  }
}

TEST_F(GroupTest, CollectivesGiveWhatTheirNamesSay) {
  constexpr int world = 3;
  const Results results = run("collectives", world);
  for (int rank = 0; rank < world; ++rank) {
    const auto& result = results[static_cast<std::size_t>(rank)];
    ASSERT_EQ(result.status, 0) << result.errors;
    auto numbers = numbers_of(result.output);
    for (const char* dtype : {"Float", "Double", "Long"})
      EXPECT_EQ(numbers[dtype], (std::vector<double>{30, 33, 36, 39, 42})) << dtype;
    EXPECT_EQ(numbers["broadcast"], (std::vector<double>{2, 2}));
    EXPECT_EQ(numbers["all_gather"], (std::vector<double>{0, 1, 2}));
    EXPECT_EQ(numbers["gather"],
              rank == 1 ? std::vector<double>({0, 1, 2}) : std::vector<double>());
    const double first = 2 * rank;
    EXPECT_EQ(numbers["all_to_all"], (std::vector<double>{first, first + 1, first + 100,
                                                          first + 101, first + 200, first + 201}));
    EXPECT_EQ(numbers["reduce_scatter"], (std::vector<double>{3 * first + 300, 3 * first + 303}));
    EXPECT_THAT(result.output, HasSubstr("[from 0.000000] [from 1.000000] [from 2.000000]"));
  }
}

TEST_F(GroupTest, CountsTheBytesThatAreSent) {
  for (const int world : {2, 4})
    for (const auto& result : run("traffic", world)) {
      ASSERT_EQ(result.status, 0) << result.errors;
      auto numbers = numbers_of(result.output);
      EXPECT_EQ(numbers["sum"].at(0), world * ((1 << 20) + 3.0));
      EXPECT_NEAR(numbers["counted"].at(0) / numbers["written"].at(0), 1, 0.02);
    }
}

TEST_F(GroupTest, ADeadRankIsNamedAndNobodySteps) {
  const Results results = run("killed", 3);
  EXPECT_EQ(results[1].status, kKilled);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].status, 1);
    EXPECT_THAT(results[rank].errors,
                AllOf(HasSubstr("the gradients of window 3"),
                      HasSubstr("no sign of life from rank 1 (last in: the first barrier), after "),
                      Not(HasSubstr("dist.timeout")), ContainsRegex("after [0-9.]+ s; try ")))
        << "what it took, not what it might have";
    EXPECT_THAT(results[rank].output, IsEmpty());
  }
}

TEST_F(GroupTest, ARankThatIsStuckIsNamedAfterTheTimeout) {
  const Results results = run("stuck", 4);
  for (const int rank : {0, 2, 3}) {
    EXPECT_EQ(results[rank].status, 1);
    EXPECT_THAT(results[rank].errors,
                AllOf(HasSubstr("nothing from rank 1"), Not(HasSubstr("rank 2")),
                      ContainsRegex("after [0-9.]+ s \\(dist.timeout is [0-9.]+ s\\)"),
                      HasSubstr("or a longer dist.timeout")));
    EXPECT_THAT(results[rank].output, IsEmpty());
  }
}

TEST_F(GroupTest, ARankThatFailsSaysWhyToAll) {
  const Results results = run("failing", 3);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].status, 1);
    EXPECT_THAT(results[rank].errors, HasSubstr("rank 1 failed: no room on the disk"));
    EXPECT_THAT(results[rank].output, IsEmpty());
  }
}

TEST_F(GroupTest, ARankWithParametersOfOtherShapesIsNamedByAll) {
  for (const auto& result : run("other_shapes", 3)) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.errors, ContainsRegex("shapes of the parameters: '[0-9a-f]+' on rank 0, "
                                             "'[0-9a-f]+' on rank 1; try"));
  }
}

TEST_F(GroupTest, ListsOfTensorsArriveInOrderAsTheyWere) {
  using ::testing::ElementsAre;
  const Results results = run("passing", 3);
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(results[rank].status, 0) << results[rank].errors;
    auto numbers = numbers_of(results[rank].output);
    for (int list = 0; list < 3; ++list) {
      const std::string number = std::to_string(list);
      if (rank > 0) {
        EXPECT_THAT(numbers["list" + number], ElementsAre(4, 0, 0, list, 4, 1));
      }
      if (rank < 2) {
        EXPECT_THAT(numbers["back" + number], ElementsAre(0));
      }
    }
  }
}

TEST_F(GroupTest, AStageThatIsGoneIsNamedByThoseThatWaitForIt) {
  const Results results = run("unanswered", 3);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].status, 1);
    EXPECT_THAT(results[rank].errors, AllOf(HasSubstr("activations of the stage before"),
                                            HasSubstr("no sign of life from rank 1")));
    EXPECT_THAT(results[rank].output, IsEmpty());
  }
}

TEST_F(GroupTest, ASocketThatARankClosedEndsNobody) {
  for (const auto& result : run("broken_pipes", 2)) {
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_GE(numbers_of(result.output)["threads"].at(0), 2);
  }
}

TEST_F(GroupTest, TheDeathOfTheStoresHostIsNoticed) {
  for (const char* scenario : {"host_killed", "host_killed_before_texts"}) {
    const Results results = run(scenario, 3);
    EXPECT_EQ(results[0].status, kKilled);
    for (const int rank : {1, 2}) {
      EXPECT_EQ(results[rank].status, 1) << scenario;
      EXPECT_THAT(results[rank].errors, HasSubstr("no sign of life from the host of the store"));
      EXPECT_THAT(results[rank].output, IsEmpty());
    }
  }
}

TEST_F(GroupTest, AFrozenHostOfTheStoreHoldsNobody) {
  for (const char* scenario :
       {"host_frozen", "host_frozen_before_texts", "host_frozen_before_passing"})
    for (const auto& result : run_with_frozen(0, scenario, 3)) {
      EXPECT_EQ(result.status, 1) << scenario;
      EXPECT_THAT(result.errors,
                  HasSubstr("no sign of life from the host of the store (rank 0, at 127.0.0.1"));
      EXPECT_THAT(result.output, IsEmpty());
    }
}

TEST_F(GroupTest, AFrozenRankIsNamed) {
  for (const auto& result : run_with_frozen(1, "frozen", 3)) {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, HasSubstr("no sign of life from rank 1 (last in:"));
  }
}

TEST_F(GroupTest, ARankThatWaitsHearsThatTheOthersGaveUp) {
  // Its own timeout is longer than the test's.
  for (const auto& result : run_with_frozen(1, "heard_of", 3)) {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, HasSubstr("no sign of life from rank 1"));
  }
}

TEST_F(GroupTest, TheStoreListensOnTheInterfaceOfMasterAddrAlone) {
  for (auto& result : run("reachable", 2)) {
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(numbers_of(result.output)["reachable"], (std::vector<double>{1, 0}));
  }
}

TEST_F(GroupTest, ARankThatNeverComesIsNamed) {
  for (const auto& result : run("connecting", 3, 2)) {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, HasSubstr("nothing from rank 2"));
  }
}

TEST(MissingRanks, ThoseThatAreGoneExplainWhyOthersAreLate) {
  const RankState late{.collective = 4, .doing = "the backward"};
  const RankState there{.collective = 5};
  const RankState gone{.is_alive = false, .collective = 5, .doing = "the sum"};
  EXPECT_EQ(missing_ranks({there, late, gone}, 5),
            "no sign of life from rank 2 (last in: the sum)");
  EXPECT_EQ(missing_ranks({there, late, late}, 5),
            "nothing from rank 1 (last in: the backward), rank 2 (last in: the backward)");
  EXPECT_EQ(missing_ranks({there, there}, 5), "");
  const RankState forged{.is_foreign = true, .collective = 5};
  EXPECT_EQ(missing_ranks({there, forged, late}, 5),
            "words without this run's ACCRUE_RUN_TOKEN in the place of rank 1");
  EXPECT_EQ(missing_ranks({there, forged, gone}, 5), missing_ranks({there, there, gone}, 5));
  EXPECT_TRUE(names_lost_rank(missing_ranks({there, late, gone}, 5)));
  EXPECT_FALSE(names_lost_rank(missing_ranks({there, late, late}, 5)));
}

}  // namespace
}  // namespace accrue::distributed
