#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distributed/ranks.h"

namespace accrue::distributed {
namespace {

using accrue::testing::numbers_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Results = std::vector<accrue::testing::Program::Result>;
using Words = std::vector<std::string>;

constexpr int kDied = 128 + 9;

/// Groups that are rebuilt, by processes that die.
class RenewalTest : public ::testing::Test {
 protected:
  /// `words_of(rank)` is the command of each process without its first word.
  template <class WordsOf>
  static Results run_each(int world, int started, const WordsOf& words_of) {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    const std::filesystem::path folder =
        std::filesystem::path(::testing::TempDir()) /
        (std::string("accrue_renewal_") + test.name() + "_" + std::to_string(::getpid()));
    Results results = accrue::testing::run_ranks(folder, world, started, words_of);
    std::filesystem::remove_all(folder);
    return results;
  }
  static Results run(Words words, int world) {
    words.insert(words.begin(), accrue::testing::rank_program());
    return run_each(world, world, [&](int) { return words; });
  }
};

TEST_F(RenewalTest, ThoseThatAreLeftGoOn) {
  const Results results = run({"dying", "1"}, 3);
  EXPECT_EQ(results[1].status, kDied);
  for (const int rank : {0, 2}) {
    ASSERT_EQ(results[rank].status, 0) << results[rank].errors;
    auto numbers = numbers_of(results[rank].output);
    EXPECT_THAT(numbers["first"], ElementsAre(rank, 3));
    EXPECT_THAT(results[rank].output, HasSubstr("lost "));
    EXPECT_THAT(numbers["former"], ElementsAre(0, 2));
    EXPECT_THAT(numbers["renewed"], ElementsAre(rank == 0 ? 0 : 1, 2));
  }
}

TEST_F(RenewalTest, OneAfterTheOtherIsLost) {
  const Results results = run({"dying", "2", "1", "3"}, 4);
  ASSERT_EQ(results[0].status, 0) << results[0].errors;
  auto numbers = numbers_of(results[0].output);
  EXPECT_THAT(numbers["renewed"], ElementsAre(0, 3, 0, 2, 0, 1));
  EXPECT_THAT(numbers["former"], ElementsAre(0, 1, 3, 0, 2, 0));
}

/// In each group a rank is watched by the one before it; the others learn it from the store.
TEST_F(RenewalTest, ALossIsHeardOfBesideCollectives) {
  const Results results = run({"hearing", "1", "3"}, 4);
  for (const int rank : {0, 2}) {
    ASSERT_EQ(results[rank].status, 0) << results[rank].errors;
    EXPECT_THAT(results[rank].output, HasSubstr("lost rank 1 ended, after "));
    auto numbers = numbers_of(results[rank].output);
    EXPECT_THAT(numbers["before"], ElementsAre(0, 0));
    EXPECT_THAT(numbers["renewed"], ElementsAre(rank / 2, 3, rank / 2, 2));
  }
}

TEST_F(RenewalTest, OneThatHangsIsLeftOutAndToldSo) {
  const Results results = run({"hanging"}, 3);
  for (const int rank : {0, 2}) {
    ASSERT_EQ(results[rank].status, 0) << results[rank].errors;
    EXPECT_THAT(numbers_of(results[rank].output)["former"], ElementsAre(0, 2));
  }
  EXPECT_EQ(results[1].status, 1);
  EXPECT_THAT(results[1].errors, HasSubstr("the others went on without this rank"));
}

TEST_F(RenewalTest, OneThatComesLateJoins) {
  const Results results = run_each(2, 3, [](int rank) {
    return rank < 2 ? Words{accrue::testing::rank_program(), "joining"}
                    : Words{"RANK=1", "LOCAL_RANK=1", accrue::testing::rank_program(), "joining",
                            "late"};
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(results[rank].status, 0) << results[rank].errors;
    auto numbers = numbers_of(results[rank].output);
    EXPECT_THAT(numbers["late"], ElementsAre(rank == 2 ? 1 : 0));
    EXPECT_THAT(numbers["renewed"], ElementsAre(rank, 3));
    if (rank < 2) {
      EXPECT_THAT(numbers["former"], ElementsAre(0, 1, -1));
    }
  }
}

TEST_F(RenewalTest, TooFewWaitUntilTheyAreToldNotTo) {
  const Results results = run({"waiting"}, 3);
  EXPECT_EQ(results[0].status, 1);
  EXPECT_THAT(numbers_of(results[0].output)["asked"], ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(results[0].errors, HasSubstr("2 ranks or more, received 1, until the waiting"));
}

}  // namespace
}  // namespace accrue::distributed
