#include "data/tokenizer/regex.h"

#include <gmock/gmock.h>

#include <vector>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Extent> matches(const std::string& pattern, const std::string& text) {
  const Regex regex(pattern, "a test");
  Regex::Matcher matcher(regex);
  std::vector<Extent> found;
  for (auto match = matcher.find(text, 0); match; match = matcher.find(text, match->end))
    found.push_back(*match);
  return found;
}

/// Windows begin at 256 bytes and double.
TEST(Regex, FindsTheSameHoweverFarAMatchReaches) {
  for (const std::size_t size : {1, 254, 255, 256, 257, 511, 512, 513, 5000}) {
    const std::string word(size, 'a'), blank(size, ' ');
    EXPECT_THAT(matches("a+", word + "b" + word),
                ElementsAre(Extent{0, size}, Extent{size + 1, 2 * size + 1}));
    EXPECT_THAT(matches("b", word + "b" + word), ElementsAre(Extent{size, size + 1}));
    const std::vector<Extent> one_blank{{0, 1}, {2, 3}},
        several{{0, 1}, {1, size}, {size + 1, size + 2}};
    EXPECT_EQ(matches(R"(\s+(?!\S)|\S+)", "x" + blank + "y"), size == 1 ? one_blank : several);
    EXPECT_THAT(matches("a+$", word), ElementsAre(Extent{0, size}));
    EXPECT_THAT(matches("(?<=a)b", word + "b"), ElementsAre(Extent{size, size + 1}));
    EXPECT_THAT(matches("c", word), ElementsAre());
  }
}

TEST(Regex, DividesNoCharacterByAWindow) {
  for (std::size_t before = 250; before < 260; ++before) {
    const std::string text = std::string(before, 'a') + "\u20ac\U0001f600b";
    EXPECT_THAT(matches(R"(\p{S}+)", text), ElementsAre(Extent{before, before + 7}));
    EXPECT_THAT(matches("[^b]+", text), ElementsAre(Extent{0, before + 7}));
  }
}

TEST(Regex, RefusesAPatternThatLooksFarAheadAtEachPlace) {
  const std::string text(100'000, 'a');
  for (const char* pattern : {"[^@]*@|.", "a*b|.", ".*z|."}) {
    try {
      matches(pattern, text);
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("looks far ahead")) << pattern;
    }
  }
  EXPECT_EQ(matches("[^@]*@|.", std::string(200, 'a')).size(), 200U) << "of a short text";
  EXPECT_EQ(matches("a*b|.", std::string(5000, 'a') + "b").size(), 1U);
}

}  // namespace
}  // namespace accrue::data
