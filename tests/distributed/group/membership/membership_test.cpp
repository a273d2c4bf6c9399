#include "distributed/group/membership/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "distributed/group/rendezvous/rank_announcement.h"
#include "distributed/store_fixture.h"

namespace accrue::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class MembershipTest : public StoreTest {};

/// Member 0 is not always rank 0: a process must not take a member's text for that of rank 0.
TEST_F(MembershipTest, SaysThatAMemberIsHereWhereNoRankSaysSo) {
  Membership alone(texts(), texts(), 0, 1);
  EXPECT_TRUE(alone.poll(1, 1s).is_decided);
  EXPECT_EQ(alone.list().generation, 1);
  EXPECT_TRUE(plain->check({"group/1/members"}));
  EXPECT_FALSE(plain->check({std::string("group/1/") + kAnnouncement + "/0"}));
}

/// Two ask to join in place of one that is lost, and only the first shows that it lives.
TEST_F(MembershipTest, LetsInWhoShowsLifeAndKeepsThePlacesOfOthersInTheLine) {
  Membership left(texts(), texts(), 0, 2), first(texts(), texts(), 2), second(texts(), texts(), 2);
  texts().write(death_key(1), "1");
  EXPECT_FALSE(left.has_applicants());
  first.apply();
  second.apply();
  texts().write(beat_key(first.own()), "1");
  EXPECT_FALSE(left.has_applicants()) << "it may have died since";
  texts().write(beat_key(first.own()), "2");
  EXPECT_TRUE(left.has_applicants());
  EXPECT_TRUE(left.poll(1, 1min).is_decided);
  EXPECT_THAT(left.list().members, ElementsAre(0, first.own()));
  EXPECT_EQ(left.list().applications, 1);
  EXPECT_FALSE(left.has_applicants());
  texts().write(beat_key(second.own()), "1");
  EXPECT_TRUE(left.has_applicants());
}

}  // namespace
}  // namespace accrue::distributed
