#include "distributed/group/membership/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace accrue::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Optional;

constexpr auto kPatience = 60s;

Candidate here(Member member) { return {.member = member, .is_here = true, .is_alive = true}; }
Candidate busy(Member member) { return {.member = member, .is_alive = true}; }
Candidate gone(Member member) { return {.member = member, .silence = kGoneAfter}; }
Candidate just_seen(Member member) { return {.member = member}; }

TEST(NextMembers, AreThoseThatAreHereAndThenApplicants) {
  EXPECT_THAT(next_members({here(0), here(2)}, {}, 0s, kPatience), Optional(ElementsAre(0, 2)));
  EXPECT_THAT(next_members({here(0), gone(1), here(2)}, {here(9)}, 0s, kPatience),
              Optional(ElementsAre(0, 2, 9)));
}

TEST(NextMembers, WaitForOneThatIsBusyAsLongAsTheirPatience) {
  EXPECT_EQ(next_members({here(0), busy(1)}, {}, 59s, kPatience), std::nullopt);
  EXPECT_THAT(next_members({here(0), busy(1)}, {}, kPatience, kPatience), Optional(ElementsAre(0)));
}

TEST(NextMembers, WaitForNobodyWhoseProcessEnded) {
  Candidate ended = busy(1);
  ended.has_ended = true;
  EXPECT_THAT(next_members({here(0), ended}, {}, 0s, kPatience), Optional(ElementsAre(0)));
}

TEST(NextMembers, LeaveOutOneThatDiedWhileTheyWaited) {
  Candidate died = here(1);
  died.silence = kGoneAfter;
  EXPECT_THAT(next_members({here(0), died}, {}, 0s, kPatience), Optional(ElementsAre(0)));
  Candidate ended = here(1);
  ended.has_ended = true;
  EXPECT_THAT(next_members({here(0), ended}, {}, 0s, kPatience), Optional(ElementsAre(0)));
  Candidate applied = here(7);
  applied.silence = kGoneAfter;
  EXPECT_THAT(next_members({here(0)}, {applied}, 0s, kPatience), Optional(ElementsAre(0)));
}

std::vector<Member> members_of(const std::vector<Candidate>& candidates) {
  std::vector<Member> members;
  for (const Candidate& candidate : candidates) members.push_back(candidate.member);
  return members;
}

TEST(Applicants, AreDecidedOnUpToOneThatHasToShowThatItLives) {
  Candidate silent = just_seen(8);
  silent.silence = kGoneAfter;
  EXPECT_THAT(members_of(decidable({here(7), silent, here(9)})), ElementsAre(7, 8, 9));
  EXPECT_THAT(members_of(decidable({here(7), just_seen(8), here(9)})), ElementsAre(7));
  EXPECT_THAT(members_of(decidable({just_seen(7)})), ElementsAre());
}

/// If a member is gone the others continue; if none is, the group met for the applicant.
TEST(NextMembers, WaitForAnApplicantWhereNobodyIsGone) {
  EXPECT_EQ(next_members({here(0), here(1)}, {here(7), just_seen(8)}, 0s, kPatience), std::nullopt);
  EXPECT_THAT(next_members({here(0), gone(1)}, {here(7), just_seen(8)}, 0s, kPatience),
              Optional(ElementsAre(0, 7)));
}

TEST(MemberList, ComesBackFromItsText) {
  const MemberList list{.generation = 3, .members = {4, 0, Member{1} << 32}, .applications = 2};
  EXPECT_EQ(member_list(to_text(list)), list);
  EXPECT_EQ(rank_of(0, list), 1);
  EXPECT_EQ(rank_of(1, list), std::nullopt);
}

TEST(MemberList, IsNothingElse) {
  for (const char* text :
       {"", "{}", "[]", "7", R"({"generation":-1,"members":[0],"applications":0})",
        R"({"generation":1,"members":[],"applications":0})",
        R"({"generation":1,"members":[0,0],"applications":0})",
        R"({"generation":1,"members":[-2],"applications":0})",
        R"({"generation":1,"members":["0"],"applications":0})",
        R"({"generation":1,"members":[0],"applications":-1})", R"({"generation":1,"members":[0]})",
        R"({"generation":1,"members":[1e77],"applications":0})",
        R"({"generation":1,"members":[0.5],"applications":0})",
        R"({"generation":1,"members":[18446744073709551615],"applications":0})"})
    EXPECT_EQ(member_list(text), std::nullopt) << text;
}

/// A run of many ranks that die and come back at random, each of which sees what the others wrote.
/// One rank decides for all; this tests that all would have decided alike.
TEST(NextMembers, AreDecidedAlikeForAThousandRanksThatComeAndGo) {
  std::mt19937 random(7);
  std::vector<Member> members(1000);
  for (std::size_t i = 0; i < members.size(); ++i) members[i] = static_cast<Member>(i);
  Member next = 5000;
  for (int generation = 0; generation < 200; ++generation) {
    std::vector<Candidate> old, applying;
    std::vector<Member> expected;
    for (const Member member : members) {
      const bool lives = std::uniform_int_distribution(0, 99)(random) > 2;
      old.push_back(lives ? here(member) : gone(member));
      if (lives) expected.push_back(member);
    }
    for (int joined = std::uniform_int_distribution(0, 50)(random); joined > 0; --joined) {
      applying.push_back(here(++next));
      expected.push_back(next);
    }
    const auto decided = next_members(old, applying, 0s, kPatience);
    ASSERT_THAT(decided, Optional(expected));
    const MemberList list{.generation = generation, .members = *decided};
    ASSERT_EQ(member_list(to_text(list)), list);
    members = *decided;
  }
}

}  // namespace
}  // namespace accrue::distributed
