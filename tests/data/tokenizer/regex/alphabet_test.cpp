#include "data/tokenizer/regex/alphabet.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/utf8.h"

namespace accrue::data {
namespace {

std::string text_of(char32_t c) {
  std::string text;
  append_utf8(c, text);
  return text;
}

bool has_kind(const Alphabet& alphabet, std::size_t set, char kind) {
  for (const Alphabet::Kind own : alphabet.kinds_in(set))
    if (own == static_cast<Alphabet::Kind>(kind)) return true;
  return false;
}

TEST(Alphabet, TellsTheSetsThatACharacterIsIn) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<CodePoints> sets(1 + random() % 5);
    for (CodePoints& set : sets)
      for (int i = 0; i < 4; ++i) {
        const char32_t first = random() % (trial % 2 == 0 ? 0x200 : 0x10f000);
        set = set | CodePoints({{first, static_cast<char32_t>(first + random() % 300)}});
      }
    const auto alphabet = Alphabet::of(sets);
    ASSERT_TRUE(alphabet);
    for (char32_t c = 0; c <= CodePoints::largest; c += c < 0x1000 ? 1 : 97) {
      if (c >= 0xd800 && c <= 0xdfff) continue;
      const std::string kinds = alphabet->kinds_of(text_of(c));
      ASSERT_EQ(kinds.size(), 1U);
      for (std::size_t set = 0; set < sets.size(); ++set)
        ASSERT_EQ(has_kind(*alphabet, set, kinds[0]), sets[set].has(c)) << std::uint32_t{c};
    }
  }
}

TEST(Alphabet, HasOneKindForEachCharacterOfAText) {
  const auto alphabet = Alphabet::of({CodePoints::one('a'), CodePoints::one(U'\u00e9'),
                                      CodePoints::one(U'\U0001f600'), CodePoints()});
  ASSERT_TRUE(alphabet);
  const std::string kinds = alphabet->kinds_of("ab\u00e9\U0001f600a\u4e00");
  ASSERT_EQ(kinds.size(), 6U);
  EXPECT_EQ(kinds[0], kinds[4]);
  EXPECT_EQ(kinds[1], kinds[5]) << "both are in none of the sets";
  EXPECT_NE(kinds[0], kinds[2]);
  EXPECT_NE(kinds[2], kinds[3]);
  EXPECT_TRUE(alphabet->kinds_in(3).empty());
  EXPECT_EQ(alphabet->kinds_of(""), "");
}

TEST(Alphabet, IsNoneOfMoreKindsThanAByteTells) {
  std::vector<CodePoints> sets;
  for (char32_t c = 0; c < 255; ++c) sets.push_back(CodePoints::one(0x4e00 + c));
  EXPECT_TRUE(Alphabet::of(sets)) << "with that of all others 256";
  sets.push_back(CodePoints::one('a'));
  EXPECT_FALSE(Alphabet::of(sets));
}

}  // namespace
}  // namespace accrue::data
