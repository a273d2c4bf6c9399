// Texts that ranks write into their store, read back: a text of another kind is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distributed/group/handshake.h"
#include "distributed/group/membership/post_mortem.h"
#include "distributed/group/network/addresses.h"
#include "support/errors.h"

namespace accrue::distributed {
namespace {

using accrue::testing::error_of;
using ::testing::HasSubstr;

TEST(RankPlace, ComesBackFromItsText) {
  RankState state;
  take_place(place_text(17, "sum of gradients"), state);
  EXPECT_EQ(state.collective, 17);
  EXPECT_EQ(state.doing, "sum of gradients");
}

TEST(RankPlace, OfAnotherTextIsNone) {
  for (const char* text : {"", " ", "sum", "17", "17sum", "99999999999999999999 sum", "0x11 sum"}) {
    RankState state;
    take_place(text, state);
    EXPECT_EQ(state.collective, 0) << text;
    EXPECT_EQ(state.doing, "") << text;
  }
  RankState unreadable;
  take_place("nothing of ours", unreadable);
  EXPECT_EQ(missing_ranks({{.collective = 3}, unreadable}, 3), "nothing from rank 1");
}

TEST(LifelinePlace, ComesBackFromItsText) {
  const auto place = place_from_text(to_text(Place{.host = "::1", .port = 65535}));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->host, "::1");
  EXPECT_EQ(place->port, 65535);
}

TEST(LifelinePlace, OfAnotherTextIsNone) {
  for (const char* text : {"", "::1", "::1 ", "::1 65536", "::1 -1", "::1 80 80", "::1 port"})
    EXPECT_FALSE(place_from_text(text)) << text;
}

TEST(Facts, ComeBackFromTheirText) {
  const Facts facts{{"version", "1"}, {"data", "a \"quoted\" path"}};
  EXPECT_EQ(facts_from_text(to_text(facts)), facts);
  EXPECT_EQ(facts_from_text(to_text(Facts{})), Facts{});
}

TEST(Facts, AreNothingElse) {
  for (const char* text : {"", "{}", "[[", R"([["version"]])", R"([["version", 1]])",
                           R"([["version", "1", "2"]])", R"({"version": "1"})"})
    EXPECT_THAT(error_of([&] { facts_from_text(text); }, Error::Kind::runtime),
                HasSubstr("the facts of a rank, by name"))
        << text;
}

}  // namespace
}  // namespace accrue::distributed
