#include "distributed/group/membership.h"

#include <gtest/gtest.h>

#include <chrono>

#include "distributed/group/here_text.h"
#include "distributed/store_fixture.h"

namespace accrue::distributed {
namespace {

using namespace std::chrono_literals;

class MembershipTest : public StoreTest {};

/// Member 0 is not always rank 0: who meets rank 0 must not take a member's word for its own.
TEST_F(MembershipTest, SaysThatAMemberIsHereWhereNoRankSaysSo) {
  Membership alone(texts(), 0, 1);
  EXPECT_TRUE(alone.look(1, 1s).is_decided);
  EXPECT_EQ(alone.list().generation, 1);
  EXPECT_TRUE(plain->check({"group/1/members"}));
  EXPECT_FALSE(plain->check({std::string("group/1/") + kHere + "/0"}));
}

}  // namespace
}  // namespace accrue::distributed
