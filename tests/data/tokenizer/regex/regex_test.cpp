#include "data/tokenizer/regex/regex.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "core/utf8.h"
#include "support/errors.h"

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Extent> matches(const std::string& pattern, const std::string& text) {
  const Regex regex(pattern, "a test");
  Regex::Matcher matcher(regex, text);
  std::vector<Extent> found;
  while (const auto match = matcher.next()) found.push_back(*match);
  return found;
}

/// The parts of a text that match.
std::vector<std::string> words(const std::string& pattern, const std::string& text) {
  std::vector<std::string> found;
  for (const Extent match : matches(pattern, text))
    found.push_back(text.substr(match.begin, match.size()));
  return found;
}

std::string refused(const std::string& pattern) {
  return accrue::testing::usage_message([&] { Regex(pattern, "a test"); });
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

/// Extensions of Unicode 15 to 16, which PCRE2 may not know.
TEST(Regex, TakesLettersOfUnicode16ForLetters) {
  const char* const gpt2 = R"( ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  for (const char* const letter :
       {"\U00031350", "\U0002ebf0", "\u1c89", "\ua7cb", "\U0001e030", "\U00013460", "\U00010d40"})
    EXPECT_EQ(words(gpt2, std::string("b") + letter + "a").size(),
              letter == std::string("\U00010d40") ? 3U : 1U)
        << letter << ", of which Garay's is a digit";
  EXPECT_THAT(words("(?i:\u1c89+)", "\u1c89\u1c8aa"), ElementsAre("\u1c89\u1c8a"));
  EXPECT_THAT(words(R"(\p{Han}+)", "a\U00031350\u4e00"), ElementsAre("\U00031350\u4e00"));
}

TEST(Regex, ReadsClassesWithinClasses) {
  EXPECT_THAT(words(R"([^(\s|[.,!?])]+)", "ab(c |d.e"), ElementsAre("ab", "c", "d", "e"));
  EXPECT_THAT(words(R"([\p{L}&&[^\p{Han}]]+)", "ab\u4e00c1"), ElementsAre("ab", "c"));
  EXPECT_THAT(words("[a-w&&[^c-g]z]+", "abcghwz"), ElementsAre("ab", "hw"));
  EXPECT_THAT(words("[^a-w&&[^c-g]]+", "abcgz"), ElementsAre("cgz"));
  EXPECT_THAT(words("[]a]+", "[a]b"), ElementsAre("a]"));
  EXPECT_THAT(words("[a-c-e]+", "abd-e"), ElementsAre("ab", "-e"));
  EXPECT_THAT(words("[-a]+|[b-]+", "a-b-"), ElementsAre("a-", "b-"));
  EXPECT_THAT(words("[[:^alpha:]]+", "a1 b"), ElementsAre("1 "));
  EXPECT_THAT(words("[[:punct:]]+", "a$.b"), ElementsAre("$."));
  EXPECT_THAT(words(R"([\b\x41\u00e9])", "a\bA\u00e9"), ElementsAre("\b", "A", "\u00e9"));
}

TEST(Regex, ReadsCountsAsOnigurumaDoes) {
  EXPECT_THAT(words("a{1,2}+", "aaaaa"), ElementsAre("aaaaa")) << "repeated, not possessive";
  EXPECT_THAT(matches("a{2}?", "aaa"), ElementsAre(Extent{0, 2}, Extent{3, 3}))
      << "(?:a{2})?, not reluctant";
  EXPECT_THAT(words("a{,2}", "aaa"), ElementsAre("aa", "a"));
  EXPECT_THAT(words("a{1,2}?", "aa"), ElementsAre("a", "a"));
  EXPECT_THAT(words("a{2,1}a", "aaa"), ElementsAre("aaa")) << "possessive";
  EXPECT_THAT(words("a{2,1}ab|b", "aab"), ElementsAre("b")) << "which keeps what it has taken";
  EXPECT_THAT(words("a{|a{,}|b{2", "a{a{,}b{2"), ElementsAre("a{", "a{", "b{2"));
  EXPECT_THAT(words("a{2}{2}", "aaaaa"), ElementsAre("aaaa"));
}

TEST(Regex, ReadsOptionsAsOnigurumaDoes) {
  EXPECT_THAT(words("a(?i)b|c", "aB aC C"), ElementsAre("aB", "aC")) << "a(?i:b|c)";
  EXPECT_THAT(words("(a(?i)b)c", "aBc aBC"), ElementsAre("aBc"));
  EXPECT_THAT(words("(?x) a b # a comment\n c", "abc a b"), ElementsAre("abc"));
  EXPECT_THAT(words("(?m:a.)|b.", "a\nb\nbc"), ElementsAre("a\n", "bc"));
  EXPECT_THAT(words("(?i:A(?-i:b))", "ab aB"), ElementsAre("ab"));
}

TEST(Regex, ReadsLinesAsOnigurumaDoes) {
  EXPECT_THAT(matches("^", "a\nb\n"), ElementsAre(Extent{0, 0}, Extent{2, 2}));
  EXPECT_THAT(words("a$", "a\na\nb"), ElementsAre("a", "a"));
  EXPECT_THAT(matches("$", "a\n"), ElementsAre(Extent{1, 1}, Extent{2, 2}));
  EXPECT_THAT(matches(R"(a\Z|a\z)", "a\na\n"), ElementsAre(Extent{2, 3}));
  EXPECT_THAT(words(R"(\R)", "\r\n\n\u2028"), ElementsAre("\r\n", "\n", "\u2028"));
  EXPECT_THAT(words(R"(\b\w+\b)", "ab-\u00e9\u0301 \u203f"),
              ElementsAre("ab", "\u00e9\u0301", "\u203f"));
}

TEST(Regex, IgnoresCaseAsOnigurumaDoes) {
  EXPECT_THAT(words("(?i:'s|'ll)", "'\u017f'lL'S"), ElementsAre("'\u017f", "'lL", "'S"));
  EXPECT_THAT(words("(?i:[k])", "kK\u212a"), ElementsAre("k", "K", "\u212a"));
  EXPECT_THAT(words("(?i:ss)", "\u00df\u1e9eS\u017f"), ElementsAre("\u00df", "\u1e9e", "S\u017f"));
  EXPECT_THAT(words("(?i:\u00df|ffi)", "ss\ufb03FfI"), ElementsAre("ss", "\ufb03", "FfI"));
  EXPECT_THAT(words("(?i:[\u00df]x)", "ssx"), ElementsAre("ssx"));
  EXPECT_THAT(words("(?i:[^s])", "sS\u017ft"), ElementsAre("t"));
  EXPECT_THAT(words(R"((?i)\p{Lu})", "aA"), ElementsAre("A")) << "a property does not";
  EXPECT_THAT(words(R"((?i)[\p{Lu}])", "aA1"), ElementsAre("a", "A")) << "a class does";
}

/// Like Oniguruma; PCRE2 would take a time that is exponential in the text.
TEST(Regex, JoinsRepeatsOfRepeats) {
  const std::string text(60, 'a');
  for (const char* const pattern :
       {"(?:a+)*b|c", "(?:a*)+b|c", "a+*b|c", "(?:a?)*b|c", "(?:a+?)+b|c"})
    EXPECT_THAT(words(pattern, text + "c"), ElementsAre("c")) << pattern;
  EXPECT_THAT(words("(?:a+)?b", "aab"), ElementsAre("aab"));
  EXPECT_THAT(words("(?:a*)??b", "aab"), ElementsAre("aab"));
  EXPECT_THAT(words("(?:ab+)*c", "abbabc"), ElementsAre("abbabc"));
}

/// A number of Latin-1 is a word character only outside a class, where Oniguruma has its own table.
TEST(Regex, HasOnigurumasWords) {
  EXPECT_THAT(words(R"(\w+)", "a\u00bd-\u2160"), ElementsAre("a\u00bd", "\u2160"));
  EXPECT_THAT(words(R"([\w]+)", "a\u00bd"), ElementsAre("a"));
  EXPECT_THAT(words(R"(\W)", "\u00bd-"), ElementsAre("-"));
}

/// tokenizers treats them as matches, too: they cut.
TEST(Regex, FindsMatchesOfNothing) {
  EXPECT_THAT(matches(R"((?=(?:\d{3})+(?!\d)))", "1234567"),
              ElementsAre(Extent{1, 1}, Extent{4, 4}));
  EXPECT_THAT(matches("", "\u00e9a"), ElementsAre(Extent{0, 0}, Extent{2, 2}, Extent{3, 3}));
  EXPECT_THAT(matches("x*", "axx"), ElementsAre(Extent{0, 0}, Extent{1, 3}));
  EXPECT_THAT(matches("(?<=b)(?!c)", std::string(300, 'a') + "bc"), ElementsAre());
  // An empty match at the end of a window.
  for (const std::size_t size : {255, 256, 257})
    EXPECT_THAT(matches("(?!a)", std::string(size, 'a') + "ab"),
                ElementsAre(Extent{size + 1, size + 1}, Extent{size + 2, size + 2}));
}

TEST(Regex, RefersToWhatAGroupHasMatched) {
  EXPECT_THAT(words(R"((.)\1)", "aab\U0001f600\U0001f600"),
              ElementsAre("aa", "\U0001f600\U0001f600"));
  EXPECT_THAT(words(R"((?<q>['"]).*?\k<q>)", "a'b\"c'\"'"), ElementsAre("'b\"c'"));
  EXPECT_THAT(words(R"((?<q>a)(b)\k<q>)", "aba"), ElementsAre("aba"));
}

/// More characters than kinds can distinguish.
TEST(Regex, MatchesPatternsOfVeryManyCharacters) {
  std::string pattern, text;
  for (char32_t c = 0x4e00; c < 0x4e00 + 300; ++c) {
    std::string letter;
    append_utf8(c, letter);
    pattern += (pattern.empty() ? "" : "|") + letter + "a";
    text += letter + "a" + letter;
  }
  EXPECT_EQ(matches(pattern, text).size(), 300U);
  EXPECT_EQ(matches(pattern, text).back(), (Extent{299U * 7U, 299U * 7U + 4U}));
}

TEST(Regex, KnowsOtherMarks) {
  EXPECT_THAT(matches(R"(a\Kb)", "abb"), ElementsAre(Extent{1, 2}));
  EXPECT_THAT(words(R"(\Ga)", "aaba"), ElementsAre("a", "a"));
  EXPECT_THAT(words(R"(\h+|\O|\N)", "fF0g"), ElementsAre("fF0", "g"));
  EXPECT_THAT(words(R"(\x61\xe2\x82\xac\o{101}\101\cA\t)", "a\u20acAA\x01\t").size(), 1U);
  EXPECT_THAT(words(R"((?>a+)b|(?:a)c)", "aabac"), ElementsAre("aab", "ac"));
  EXPECT_THAT(words("a(?#a comment \\) here)b", "ab"), ElementsAre("ab"));
}

TEST(Regex, RefusesByNameWhatItDoesNotMatch) {
  EXPECT_THAT(refused(R"(a\X)"), HasSubstr(R"(\X)"));
  EXPECT_THAT(refused(R"(\p{Nope}+)"), HasSubstr(R"(\p{Nope})"));
  EXPECT_THAT(refused(R"((a)\g<1>)"), HasSubstr(R"(\g<)"));
  EXPECT_THAT(refused("(?~a)"), HasSubstr("(?~"));
  EXPECT_THAT(refused("(a)?(?(1)b|c)"), HasSubstr("(?("));
  EXPECT_THAT(refused("(?{a})"), HasSubstr("(?{"));
  EXPECT_THAT(refused("(*FAIL)"), HasSubstr("(*"));
  EXPECT_THAT(refused("(?W:a)"), HasSubstr("options"));
  EXPECT_THAT(refused(R"((?i:(a)\1))"), HasSubstr("ignores case"));
  EXPECT_THAT(refused("(?<=a+)b"), HasSubstr("lookbehind"));
  for (const char* const pattern : {"(a?|b){2}", "(?:^|a){,2}", "(|ab|a){1,2}", "(?:a??|b){2,}"})
    EXPECT_THAT(refused(pattern), HasSubstr("may match nothing before something")) << pattern;
  EXPECT_THAT(refused(R"((a|b?){2}\1)"), HasSubstr("references beside a repeated group"));
  EXPECT_THAT(refused(R"((a?)*\1)"), HasSubstr("references beside a repeated group"));
}

/// Oniguruma ends such a repeat with the first match of nothing. PCRE2 goes on, and finds the same.
TEST(Regex, CountsPartsThatMayMatchNothing) {
  EXPECT_THAT(words("(?:a?b){2}", "abb"), ElementsAre("abb")) << "the control: it takes one";
  EXPECT_THAT(words("(?:a|b?){2}c", "abcc"), ElementsAre("abc", "c"));
  EXPECT_THAT(words("(ab|a|){2,3}(?:b|$)", "abab"), ElementsAre("abab"));
  EXPECT_THAT(matches("(?>^|a*){2}b", "aab"), ElementsAre(Extent{1, 3}));
  EXPECT_THAT(words(R"((?i:\b){1,2}a)", "a ba"), ElementsAre("a"));
  EXPECT_THAT(words("(?>a?|b){2}c", "aabbc"), ElementsAre("c"));
  // A reference may match nothing itself, if its group did.
  EXPECT_THAT(refused(R"((.)(?:\1?){2}b)"), HasSubstr("a part that may match nothing"));
}

/// Each is missed by an optimization of PCRE2 10.42.
TEST(Regex, FindsWhatPcre2Optimizes) {
  EXPECT_THAT(words("(?:ab|)a*a", "ab"), ElementsAre("a"));
  EXPECT_THAT(words("(?:(?:ab|)c*)b", "ab"), ElementsAre("b"));
  EXPECT_THAT(words("(?>a+?a)c", "aaac"), ElementsAre("aac"));
  EXPECT_THAT(words("b?(?>(?:aa)?)b", "ab"), ElementsAre("b"));
  EXPECT_THAT(words("b?(?:aa)?+b", "cb"), ElementsAre("b"));
}

TEST(Regex, RejectsWhatIsNoPattern) {
  for (const char* const pattern :
       {"(",   ")",   "a)",  "a\\",        "*a",          "a|*",       "(+)",   "^*",    "(?=a)*",
        "[a",  "[]",  "[^]", "[b-a]",      "[\\w-.]",     "[a-\\w]",   "\\p{L", "(?<a",  "(?",
        "(?i", "(?#", "\\1", "(?<a>b)\\1", "\\x{110000}", "\\x{d800}", "\\xff", "\\u12", "\xff"})
    EXPECT_THAT(refused(pattern), HasSubstr("a regular expression")) << pattern;
  const std::string deep(1000, '(');
  EXPECT_THAT(refused(deep + "a" + std::string(1000, ')')), HasSubstr("groups within"));
  EXPECT_THAT(refused(std::string(1000, '[') + "a"), HasSubstr("classes within"));
  EXPECT_THAT(refused(std::string(100'000, 'a')), HasSubstr("64 KiB"));
}

}  // namespace
}  // namespace accrue::data
