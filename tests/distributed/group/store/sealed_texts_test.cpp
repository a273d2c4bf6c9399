#include "distributed/group/store/sealed_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "distributed/group/membership/rank_notes.h"
#include "distributed/group/store/sealed_store.h"
#include "distributed/store_fixture.h"
#include "support/errors.h"

namespace accrue::distributed {
namespace {

using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(StoreTest, AClientReadsAndWritesWhatThatOfC10dDoes) {
  const auto own = client();
  EXPECT_FALSE(own->has("accrue/0/a"));
  own->set("accrue/0/a", "one");
  EXPECT_TRUE(own->has("accrue/0/a"));
  EXPECT_EQ(plain->get_to_str("a"), "one");
  plain->set("a", std::string("two"));
  plain->get_to_str("a");  // it is there before another connection asks
  EXPECT_EQ(own->get("accrue/0/a"), "two");
  EXPECT_EQ(own->compare_set("accrue/0/a", "one", "three"), "two");
  EXPECT_EQ(own->compare_set("accrue/0/a", "two", "three"), "three");
  EXPECT_EQ(own->compare_set("accrue/0/b", "", "new"), "new");
  EXPECT_EQ(plain->get_to_str("b"), "new");
}

TEST_F(StoreTest, AClientLeavesWhatIsTooLongAndGoesOn) {
  const auto own = client();
  own->set("accrue/0/longest", std::string(StoreClient::kLongest, 'x'));
  EXPECT_EQ(own->get("accrue/0/longest"), std::string(StoreClient::kLongest, 'x'));
  write_what_is_too_long("huge");
  EXPECT_TRUE(plain->check({"huge"}));
  EXPECT_EQ(own->get("accrue/0/huge"), std::nullopt);
  EXPECT_EQ(own->compare_set("accrue/0/huge", "", "mine"), std::nullopt);
  own->set("accrue/0/after", "it");
  EXPECT_EQ(own->get("accrue/0/after"), "it");
  EXPECT_THAT(usage_message(
                  [&] { own->set("accrue/0/mine", std::string(StoreClient::kLongest + 1, 'x')); }),
              AllOf(HasSubstr("accrue/0/mine"), HasSubstr(std::to_string(StoreClient::kLongest))));
}

TEST_F(StoreTest, ATextIsReadByThoseOfItsRunAlone) {
  texts().write("greeting/1", "hello");
  const auto own = client();
  while (!own->has("accrue/0/greeting/1")) continue;
  EXPECT_EQ(texts().read("greeting/1").text, "hello");
  EXPECT_TRUE(texts("another token of some length").read("greeting/1").is_foreign());
  EXPECT_TRUE(texts(kTokenOfStore, "an earlier run").read("greeting/1").is_foreign());
  const Reading nothing = texts().read("greeting/2");
  EXPECT_FALSE(nothing.is_there);
  EXPECT_FALSE(nothing.is_foreign());
}

TEST_F(StoreTest, WhatAStrangerWritesIsForeign) {
  texts().write("greeting/1", "hello");
  while (!plain->check({"greeting/1"})) continue;
  const std::string sealed = plain->get_to_str("greeting/1");
  plain->set("greeting/2", sealed);
  plain->set("greeting/3", std::string("hello"));
  write_what_is_too_long("greeting/4");
  EXPECT_TRUE(plain->check({"greeting/4"}));
  const SealedTexts own = texts();
  for (const char* key : {"greeting/2", "greeting/3", "greeting/4"})
    EXPECT_TRUE(own.read(key).is_foreign()) << key;
  plain->set("greeting/3", texts().read("greeting/1").text.value());
  EXPECT_TRUE(own.read("greeting/3").is_foreign()) << "a text without its seal";
  EXPECT_EQ(own.read("greeting/1").text, "hello");
}

TEST_F(StoreTest, TheFirstOfTheRunDecidesWhateverStrangersWrote) {
  plain->set("forged", std::string("the end"));
  write_what_is_too_long("huge");
  EXPECT_TRUE(plain->check({"forged", "huge"}));
  for (const char* key : {"untouched", "forged", "huge"}) {
    const SealedTexts first = texts(), second = texts();
    EXPECT_EQ(first.decide(key, "the first's"), "the first's") << key;
    while (!second.read(key).text) continue;  // a too long text is overwritten without an answer
    EXPECT_EQ(second.decide(key, "the second's"), "the first's") << key;
    EXPECT_EQ(texts("another token of some length").read(key).is_foreign(), true) << key;
  }
}

TEST_F(StoreTest, ARankThatComesLateLearnsThatTheGroupHasEnded) {
  const RankNotes first(texts(), texts(), {.rank = 0, .members = {0, 1}}),
      late(texts(), texts(), {.rank = 1, .members = {0, 1}});
  const auto in_time = [] { return from_now(std::chrono::minutes(1)); };
  EXPECT_EQ(first.exchange("here", "first", from_now({})).missing, std::vector<int>{1});
  first.end_for("nothing from rank 1");
  while (!late.has_verdict()) continue;
  const RankNotes::Texts here = late.exchange("here", "late", in_time());
  EXPECT_TRUE(here.is_complete());
  EXPECT_TRUE(here.had_verdict);
  EXPECT_EQ(late.end_for("another reason"), "nothing from rank 1");
}

TEST_F(StoreTest, AnEngineGetsNoAddressFromAStranger) {
  const auto store = c10::make_intrusive<SealedStore>(plain, texts());
  store->set("rank0/address", std::vector<std::uint8_t>{1, 0, 2});
  EXPECT_EQ(store->get("rank0/address"), (std::vector<std::uint8_t>{1, 0, 2}));
  plain->set("rank1/address", std::vector<std::uint8_t>{1, 0, 2});
  try {
    store->get("rank1/address");
    ADD_FAILURE() << "a stranger's address was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank1/address"), HasSubstr("ACCRUE_RUN_TOKEN")));
  }
}

}  // namespace
}  // namespace accrue::distributed
