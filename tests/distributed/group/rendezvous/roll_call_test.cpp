#include "distributed/group/rendezvous/roll_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "distributed/store_fixture.h"

namespace accrue::distributed {
namespace {

using ::testing::ElementsAre;

/// Processes that look in turn, in any order.
class RollCalls : public StoreTest {
 protected:
  RollCall process(int rank, int world) const { return {client(), rank, world}; }
  std::vector<RollCall> processes(int world) const {
    std::vector<RollCall> all;
    for (int rank = world - 1; rank >= 0; --rank) all.push_back(process(rank, world));
    return all;
  }
  /// The names of their start once each has looked `times`; none if there is no start.
  static std::set<std::optional<std::string>> names(std::vector<RollCall>& all, int times = 5) {
    std::set<std::optional<std::string>> last;
    for (int i = 0; i < times; ++i) {
      last.clear();
      for (RollCall& one : all) last.insert(one.poll().start);
    }
    return last;
  }
  static std::string start_of(std::vector<RollCall>& all) {
    const auto found = names(all);
    EXPECT_EQ(found.size(), 1U);
    EXPECT_TRUE(found.begin()->has_value());
    return found.begin()->value_or("");
  }
  static constexpr std::nullopt_t kNone = std::nullopt;
};

TEST_F(RollCalls, GiveAllOfAStartOneName) {
  for (const int world : {1, 2, 3, 7}) {
    std::vector<RollCall> all = processes(world);
    const std::string name = start_of(all);
    EXPECT_EQ(all.front().complete(), name);
  }
}

TEST_F(RollCalls, PartTheRunsThatShareAStore) {
  std::vector<RollCall> one, other;
  for (const int rank : {1, 0}) {
    one.push_back({client(), rank, 2, "one"});
    other.push_back({client(), rank, 2, "other"});
  }
  std::vector<RollCall> stray;
  stray.push_back({client(), 1, 2, "other"});
  EXPECT_THAT(names(stray), ElementsAre(kNone));
  std::vector<RollCall> alone;
  alone.push_back({client(), 0, 2, "one"});
  EXPECT_THAT(names(alone), ElementsAre(kNone)) << "the stray is none of its ranks";
  EXPECT_NE(start_of(one), start_of(other));
}

/// The store still has the texts of the first start's processes.
TEST_F(RollCalls, CountNobodyOfACompleteStart) {
  std::vector<RollCall> first = processes(3);
  const std::string name = start_of(first);
  std::vector<RollCall> two;
  for (const int rank : {0, 1}) two.push_back(process(rank, 3));
  EXPECT_THAT(names(two), ElementsAre(kNone)) << "rank 2 has not come";
  EXPECT_THAT(two.front().missing(), ElementsAre(2));
  EXPECT_EQ(start_of(first), name) << "which the first ones still have";
  two.push_back(process(2, 3));
  EXPECT_NE(start_of(two), name);
}

TEST_F(RollCalls, AreOfAsManyAsEachStartHas) {
  std::set<std::string> starts;
  for (const int world : {3, 2, 3, 4, 1, 4}) {
    std::vector<RollCall> all = processes(world);
    starts.insert(start_of(all));
  }
  EXPECT_EQ(starts.size(), 6U);
}

/// A process that died before the start was complete left its name, with or without an answer.
TEST_F(RollCalls, TakeWhoComesInThePlaceOfOneThatDied) {
  for (const int died : {0, 1, 2})
    for (const int looks : {1, 2, 3}) {
      std::vector<RollCall> all = processes(3);
      const auto victim = all.begin() + (2 - died);
      for (int i = 0; i < looks; ++i) victim->poll();
      if (died == 0) names(all, 1);
      *victim = process(died, 3);
      start_of(all);
    }
}

TEST_F(RollCalls, NameWhoIsMissing) {
  std::vector<RollCall> all;
  for (const int rank : {0, 2}) all.push_back(process(rank, 4));
  EXPECT_THAT(names(all), ElementsAre(kNone));
  for (const RollCall& one : all) EXPECT_THAT(one.missing(), ElementsAre(1, 3));
  std::vector<RollCall> without_first{process(1, 2)};
  EXPECT_THAT(names(without_first), ElementsAre(kNone));
}

TEST_F(RollCalls, SayWhyThereIsNoStart) {
  RollCall first = process(0, 3), second = process(1, 3);
  second.poll();
  first.poll();
  EXPECT_EQ(second.poll().failure, std::nullopt);
  std::jthread giving_up([&] { first.give_up("nothing from rank 2"); });
  std::optional<std::string> failure;
  while (!failure) failure = second.poll().failure;
  EXPECT_EQ(failure, "nothing from rank 2");
  giving_up.join();
  std::vector<RollCall> next = processes(3);
  start_of(next);
}

/// Strangers may write anything: no process takes it for a start.
TEST_F(RollCalls, TakeNoTicketThatIsForNobody) {
  const auto stranger = client();
  RollCall one = process(1, 2);
  one.poll();
  for (const char* text : {"", " ", "a", "a b", "- -", "nobody's ticket"}) {
    stranger->set("accrue/roll/ticket/1", text);
    stranger->set("accrue/roll/complete", text);
    while (!stranger->has("accrue/roll/complete")) continue;
    const RollCall::Status found = one.poll();
    EXPECT_FALSE(found.start || found.failure) << text;
  }
  EXPECT_THAT(one.missing(), ElementsAre(0));
}

}  // namespace
}  // namespace accrue::distributed
