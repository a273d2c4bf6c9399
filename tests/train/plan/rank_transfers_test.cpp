#include "train/plan/rank_transfers.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

/// 8 ranks on so many nodes: 1e9 bytes a second between nodes, ten times as many within one.
RankMachines eight_ranks(std::int64_t nodes) {
  return {.ranks = 8, .nodes = nodes, .link = 1e9, .node_link = 1e10};
}

TEST(RankTransfers, SendTheirShareOfTheBytes) {
  const RankMachines machines = eight_ranks(8);
  EXPECT_DOUBLE_EQ(all_reduce(8e9, machines).bytes, 14e9) << "2 (n - 1) / n";
  EXPECT_DOUBLE_EQ(to_each_other(8e9, machines).bytes, 7e9);
  EXPECT_DOUBLE_EQ(all_gather(8e9, machines).bytes, 7e9);
  EXPECT_DOUBLE_EQ(all_reduce(8e9, machines).seconds, 14);
  EXPECT_DOUBLE_EQ(to_each_other(8e9, machines).seconds, 7);
  EXPECT_DOUBLE_EQ(all_gather(8e9, machines).seconds, 7);
  EXPECT_DOUBLE_EQ(to_neighbour(8e9, machines).seconds, 8);
}

TEST(RankTransfers, CrossALinkOnceInARing) {
  const RankMachines machines = eight_ranks(2);
  EXPECT_DOUBLE_EQ(all_reduce(8e9, machines).bytes, 14e9);
  EXPECT_DOUBLE_EQ(all_reduce(8e9, machines).seconds, 14) << "the slower link decides";
  RankMachines slow_inside = machines;
  slow_inside.node_link = 1e8;
  EXPECT_DOUBLE_EQ(all_reduce(8e9, slow_inside).seconds, 140);
}

/// Each of four ranks sends four others outside its node 1e9 bytes.
TEST(RankTransfers, ShareTheLinkOfANodeIfEachSendsToAll) {
  EXPECT_DOUBLE_EQ(to_each_other(8e9, eight_ranks(2)).seconds, 16);
  EXPECT_DOUBLE_EQ(to_each_other(8e9, eight_ranks(4)).seconds, 12) << "two ranks, six others";
  EXPECT_DOUBLE_EQ(to_each_other(8e9, eight_ranks(2)).bytes, 7e9) << "of a rank";
}

TEST(RankTransfers, StayWithinASingleNode) {
  const RankMachines machines = eight_ranks(1);
  EXPECT_DOUBLE_EQ(all_reduce(8e9, machines).seconds, 1.4);
  EXPECT_DOUBLE_EQ(to_each_other(8e9, machines).seconds, 0.7);
}

TEST(RankTransfers, HalveWithTwiceTheLink) {
  for (const std::int64_t nodes : {2, 4, 8}) {
    const RankMachines machines = eight_ranks(nodes);
    RankMachines twice = machines;
    twice.link *= 2;
    EXPECT_DOUBLE_EQ(all_reduce(8e9, twice).seconds, all_reduce(8e9, machines).seconds / 2);
    EXPECT_DOUBLE_EQ(to_each_other(8e9, twice).seconds, to_each_other(8e9, machines).seconds / 2);
    EXPECT_EQ(all_reduce(8e9, twice).bytes, all_reduce(8e9, machines).bytes);
  }
  RankMachines twice = eight_ranks(1);
  twice.link *= 2;
  EXPECT_DOUBLE_EQ(all_reduce(8e9, twice).seconds, 1.4) << "the control: nothing crosses it";
}

TEST(RankTransfers, AddUp) {
  const Transfer sum = 3 * Transfer{.bytes = 2, .seconds = 1} + Transfer{.bytes = 1, .seconds = 4};
  EXPECT_EQ(sum.bytes, 7);
  EXPECT_EQ(sum.seconds, 7);
}

}  // namespace
}  // namespace accrue::train
