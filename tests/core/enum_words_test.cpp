#include "accrue/core/enum_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

using ::testing::ElementsAre;

enum class Season { spring, summer, late_autumn };
constexpr auto season_words = enum_words<Season>(
    {{Season::summer, "summer"}, {Season::spring, "spring"}, {Season::late_autumn, "late-autumn"}});
static_assert(season_words.of(Season::spring) == "spring");
static_assert(season_words.find("late-autumn") == Season::late_autumn);

TEST(EnumWords, ReadWhatTheyPrint) {
  for (const Season season : {Season::spring, Season::summer, Season::late_autumn})
    EXPECT_EQ(season_words.find(season_words.of(season)), season);
  EXPECT_EQ(season_words.find("late_autumn"), std::nullopt);
  EXPECT_EQ(season_words.find(""), std::nullopt);
}

TEST(EnumWords, KeepTheOrderOfTheTable) {
  EXPECT_THAT(season_words.words(), ElementsAre("summer", "spring", "late-autumn"));
}

TEST(EnumWords, AreListedWhereAnotherWordIsRefused) {
  EXPECT_EQ(season_words.parse("spring", "sow", "spring"), Season::spring);
  try {
    season_words.parse("winter", "sow", "\"spring\"");
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "sow: expected summer, spring or late-autumn, received winter; try \"spring\"");
  }
}

}  // namespace
}  // namespace accrue
