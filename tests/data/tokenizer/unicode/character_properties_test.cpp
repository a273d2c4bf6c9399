// Facts about Unicode's tables from other sources: numbers stated in Unicode 16's own documents,
// and characters that came with one version. unicode_golden.py compares each code point.
#include "data/tokenizer/unicode/character_properties.h"

#include <gtest/gtest.h>

#include <string>

#include "data/tokenizer/unicode/case_variants.h"
#include "data/tokenizer/unicode/unicode_data.h"

namespace accrue::data {
namespace {

std::size_t count_of(const CodePoints& set) {
  std::size_t count = 0;
  for (const CodePoints::Range& range : set.ranges()) count += range.last - range.first + 1;
  return count;
}

CodePoints with(const std::string& name) {
  const auto found = characters_with(name);
  EXPECT_TRUE(found) << name;
  return found.value_or(CodePoints());
}

CodePoints set_of_letters(const std::u32string& letters) {
  CodePoints set;
  for (const char32_t letter : letters) set = set | CodePoints::one(letter);
  return set;
}

TEST(CharacterProperties, AreThoseOfUnicode16) {
  EXPECT_EQ(unicode_version(), "16.0.0");
  // The standard's own count: 154,998 graphic and format characters.
  EXPECT_EQ(count_of(with("Assigned") - with("Cc") - with("Co") - with("Cs")), 154'998U);
  EXPECT_EQ(count_of(with("Cc")), 65U);
  EXPECT_EQ(count_of(with("Co")), 137'468U);
  EXPECT_EQ(count_of(with("Unified_Ideograph")), 97'680U);
  EXPECT_EQ(count_of(with("White_Space")), 25U);
  EXPECT_EQ(count_of(with("XDigit")), 22U);
  EXPECT_EQ(count_of(with("Noncharacter_Code_Point")), 66U);
}

TEST(CharacterProperties, HaveWhatNewVersionsBrought) {
  for (const char32_t c : {0x31350, 0x323af, 0x2ebf0, 0x2ee5d, 0x13460})  // Unicode 15 to 16
    EXPECT_TRUE(with("Lo").has(c)) << std::uint32_t{c};
  EXPECT_TRUE(with("Han").has(0x31350));
  EXPECT_TRUE(with("Lu").has(0x1c89));
  EXPECT_TRUE(with("Lu").has(0xa7cb));
  EXPECT_TRUE(with("Garay").has(0x10d50));
  EXPECT_TRUE(with("Cn").has(0x323b0));
  EXPECT_TRUE(with("Mc").has(0x1734)) << "Mn before Unicode 14";
}

TEST(CharacterProperties, DivideAllCodePointsByCategoryAndScript) {
  CodePoints seen;
  for (const char* const group : {"L", "M", "N", "P", "S", "Z", "C"}) {
    EXPECT_TRUE((seen & with(group)).is_empty()) << group;
    seen = seen | with(group);
  }
  EXPECT_EQ(seen, CodePoints::all());
  EXPECT_EQ(with("L"), with("Lu") | with("Ll") | with("Lt") | with("Lm") | with("Lo"));
  EXPECT_EQ(with("LC"), with("Lu") | with("Ll") | with("Lt"));
  EXPECT_TRUE((with("Han") & with("Hiragana")).is_empty());
}

TEST(CharacterProperties, AreFoundByAnyFormOfTheirNames) {
  EXPECT_EQ(with("lu"), with("Uppercase_Letter"));
  EXPECT_EQ(with("white space"), with("WHITE-SPACE"));
  EXPECT_EQ(with("Grek"), with("Greek"));
  EXPECT_EQ(with("In_CJK_Unified_Ideographs"), CodePoints({{0x4e00, 0x9fff}}));
  EXPECT_NE(with("Punct"), with("PosixPunct")) << "a category, and POSIX's class with symbols";
  for (const char* const name : {"", "Letters", "Inn", "L&M", "Script=Han"})
    EXPECT_FALSE(characters_with(name)) << name;
}

TEST(CharacterProperties, NamesAreInOrder) {
  for (std::size_t i = 1; i < unicode_data::names.size(); ++i)
    ASSERT_LT(unicode_data::names[i - 1].name, unicode_data::names[i].name);
}

TEST(CaseVariants, AreWhatDiffersByCaseAlone) {
  const auto variants_of = [](char32_t c) { return with_case_variants(CodePoints::one(c)); };
  EXPECT_EQ(variants_of('s'), set_of_letters(U"sS\u017f"));
  EXPECT_EQ(variants_of(U'\u212a'), set_of_letters(U"kK\u212a"));
  EXPECT_EQ(variants_of('i'), set_of_letters(U"iI")) << "not as in Turkish";
  EXPECT_EQ(variants_of(U'\u03a3'), set_of_letters(U"\u03a3\u03c3\u03c2"));
  EXPECT_EQ(variants_of(U'\u00df'), set_of_letters(U"\u00df\u1e9e"));
  EXPECT_EQ(variants_of(0x1c89), set_of_letters({0x1c89, 0x1c8a})) << "of Unicode 16";
  EXPECT_EQ(variants_of('1'), CodePoints::one('1'));
  EXPECT_EQ(folded('S'), U's');
  EXPECT_EQ(folded(U'\u00df'), U'\u00df');
}

TEST(CaseVariants, TellWhatOneCharacterStandsFor) {
  bool has_sharp_s = false;
  for (const CaseExpansion& expansion : case_expansions()) {
    EXPECT_GT(expansion.letters.size(), 1U);
    has_sharp_s |=
        expansion.letters == U"ss" && expansion.characters == set_of_letters(U"\u00df\u1e9e");
  }
  EXPECT_TRUE(has_sharp_s);
}

}  // namespace
}  // namespace accrue::data
