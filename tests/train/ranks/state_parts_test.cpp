#include "train/ranks/state_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/errors.h"

namespace accrue::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A tensor of 12 elements among three ranks after step 7, each with a replica of the one before.
std::vector<RankHoldings> three_ranks() {
  return {{7, {7, {{0, 4}}}, {7, {{8, 4}}}, {}},
          {7, {7, {{4, 4}}}, {7, {{0, 4}}}, {}},
          {7, {7, {{8, 4}}}, {7, {{4, 4}}}, {}}};
}

/// The group without rank `lost`, whose two ranks should have one half each.
std::vector<RankHoldings> without(std::size_t lost, std::vector<RankHoldings> ranks) {
  ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(lost));
  ranks[0].wanted = {{0, 6}};
  ranks[1].wanted = {{6, 6}};
  return ranks;
}

void forget_replicas(std::vector<RankHoldings>& ranks) {
  for (RankHoldings& rank : ranks) rank.replica = {};
}

TEST(StateParts, ComeFromTheReplicaOfARankThatIsLost) {
  const auto division = plan_redistribution(without(1, three_ranks()));
  ASSERT_TRUE(division);
  EXPECT_EQ(division->step, 7);
  EXPECT_TRUE(division->needs_replicas);
  EXPECT_THAT(division->transfers,
              ElementsAre(StateTransfer{0, 0, 0, {0, 4}}, StateTransfer{0, 1, 0, {4, 2}},
                          StateTransfer{0, 1, 1, {6, 2}}, StateTransfer{0, 1, 1, {8, 4}}));
}

TEST(StateParts, AreLostWhereNobodyHasAReplica) {
  for (const std::size_t lost : {0U, 1U, 2U}) {
    std::vector<RankHoldings> ranks = without(lost, three_ranks());
    EXPECT_TRUE(plan_redistribution(ranks)) << lost;
    forget_replicas(ranks);
    EXPECT_FALSE(plan_redistribution(ranks)) << lost;
  }
}

TEST(StateParts, AreLostWhereTheReplicaIsOfAnotherStep) {
  std::vector<RankHoldings> ranks = without(1, three_ranks());
  ranks[1].replica.step = 6;
  EXPECT_FALSE(plan_redistribution(ranks));
}

TEST(StateParts, NeedNoReplicaWhereNobodyIsLost) {
  std::vector<RankHoldings> ranks = three_ranks();
  forget_replicas(ranks);
  ranks.push_back({});  // it joins
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    ranks[rank].wanted = {{static_cast<std::int64_t>(rank) * 3, 3}};
  const auto division = plan_redistribution(ranks);
  ASSERT_TRUE(division);
  EXPECT_FALSE(division->needs_replicas);
  EXPECT_THAT(division->transfers,
              ElementsAre(StateTransfer{0, 0, 0, {0, 3}}, StateTransfer{0, 0, 1, {3, 1}},
                          StateTransfer{0, 1, 1, {4, 2}}, StateTransfer{0, 1, 2, {6, 2}},
                          StateTransfer{0, 2, 2, {8, 1}}, StateTransfer{0, 2, 3, {9, 3}}));
}

/// A rank was lost while others took a step: the step before is the latest with all parts.
TEST(StateParts, AreOfTheLatestStepThatIsWhole) {
  std::vector<RankHoldings> ranks = without(2, three_ranks());
  ranks[0] = {StateParts::kNone, {8, {{0, 4}}}, {7, {{8, 4}}}, ranks[0].wanted};
  const auto before = plan_redistribution(ranks);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->step, 7);
  ranks[1] = {8, {8, {{4, 4}}}, {8, {{0, 4}}}, ranks[1].wanted};
  EXPECT_FALSE(plan_redistribution(ranks))
      << "of step 8 a part is lost, and of step 7 the parameters";
  ranks[0].replica.step = 8;
  const auto after = plan_redistribution(ranks);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->step, 8);
}

TEST(StateParts, OfARankThatKeepsNothingAreNoGap) {
  std::vector<RankHoldings> ranks = without(1, three_ranks());
  ranks[0].wanted = {{0, 12}};
  ranks[1].wanted = {{12, 0}};
  EXPECT_TRUE(plan_redistribution(ranks));
  EXPECT_FALSE(plan_redistribution({RankHoldings{}, RankHoldings{}}));
}

TEST(StateParts, AreToldInNumbers) {
  std::vector<RankHoldings> ranks = without(1, three_ranks());
  ranks[1].replica = {};
  ranks.push_back({StateParts::kNone, {}, {}, {{0, 1}}});
  for (const RankHoldings& rank : ranks) {
    const std::vector<std::int64_t> numbers = to_numbers(rank);
    EXPECT_EQ(std::ssize(numbers), 9);
    EXPECT_EQ(holdings_from_numbers(numbers), rank);
  }
}

TEST(StateParts, AreRefusedInOtherNumbers) {
  const std::vector<std::int64_t> right = to_numbers(without(1, three_ranks()).front());
  const auto refused = [](const std::vector<std::int64_t>& numbers) {
    return accrue::testing::error_of([&] { holdings_from_numbers(numbers); }, Error::Kind::runtime);
  };
  constexpr std::size_t begin = 3, elements = 4;
  std::vector<std::int64_t> before = right, beyond = right, longer = right;
  before[begin] = -1;
  beyond[begin] = beyond[elements] = std::int64_t{1} << 62;
  longer.push_back(0);
  for (const auto& numbers : {before, beyond, longer, {}})
    EXPECT_THAT(refused(numbers), ::testing::HasSubstr("ranges of its tensors"));
}

/// The documented result of plan_redistribution(): a rank that has a part keeps it, everything else
/// comes from the first rank that has it.
std::int64_t giver_in_words(const std::vector<RankHoldings>& ranks, std::int64_t receiver,
                            std::int64_t element) {
  for (const auto parts : {&RankHoldings::own, &RankHoldings::replica}) {
    const auto has = [&](const RankHoldings& rank) {
      if ((rank.*parts).step != 7) return false;
      const ElementRange& range = (rank.*parts).ranges[0];
      return range.begin <= element && element < range.begin + range.elements;
    };
    if (has(ranks[static_cast<std::size_t>(receiver)])) return receiver;
    const auto first = std::ranges::find_if(ranks, has);
    if (first != ranks.end()) return first - ranks.begin();
  }
  return -1;
}

TEST(StateParts, ComeFromWhomTheyAreToComeWhereverRangesLie) {
  std::mt19937 random(11);
  const auto draw = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  const auto range = [&] {
    const std::int64_t begin = draw(19);
    return ElementRange{begin, draw(20 - begin)};
  };
  int divided = 0;
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<RankHoldings> ranks;
    for (int rank = 0; rank < 4; ++rank)
      ranks.push_back({7, {7, {range()}}, {6 + draw(1), {range()}}, {range()}});
    const auto division = plan_redistribution(ranks);
    if (!division) continue;
    ++divided;
    for (const StateTransfer& transfer : division->transfers)
      EXPECT_EQ(transfer.from, giver_in_words(ranks, transfer.to, transfer.elements.begin));
  }
  EXPECT_GT(divided, 50);
}

}  // namespace
}  // namespace accrue::train
