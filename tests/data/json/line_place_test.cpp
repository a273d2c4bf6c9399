#include "data/json/line_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/json/line_syntax.h"

namespace accrue::data {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(LinePlace, IsWhereAValueBegins) {
  const std::string line =
      R"( {"a" :  1, "b\"": ["x]", {"c": 2}, [3 ,4],5], "c":{"a": 7} , "d": NaN, "e": null})";
  const auto column = [&](const std::string& key, std::optional<std::size_t> element = {}) {
    return column_of(line, {.key = key, .element = element});
  };
  const auto place = [&](const char* text) { return line.find(text) + 1; };
  EXPECT_THAT(column("a"), Optional(place("1,")));
  EXPECT_THAT(column("b\\\""), Optional(place("[\"x]")));
  EXPECT_THAT(column("b\\\"", 0), Optional(place("\"x]")));
  EXPECT_THAT(column("b\\\"", 1), Optional(place("{\"c\": 2")));
  EXPECT_THAT(column("b\\\"", 2), Optional(place("[3")));
  EXPECT_THAT(column("b\\\"", 3), Optional(place("5]")));
  EXPECT_THAT(column("c"), Optional(place("{\"a\": 7")));
  EXPECT_THAT(column("d"), Optional(place("NaN")));
  EXPECT_THAT(column("e"), Optional(place("null")));
  EXPECT_THAT(column("b\\\"", 4), Eq(std::nullopt));
  EXPECT_THAT(column("a", 0), Eq(std::nullopt)) << "no list";
  EXPECT_THAT(column("f"), Eq(std::nullopt));
}

TEST(LinePlace, IsNoneInWhatIsNoObject) {
  for (const char* line : {"", "[", "[1]", "\"a\"", "{", "{\"", "{\"a\"", "{\"a\":", "{\"a\\", "{]",
                           "{\"b\": \"\\", "{\"b\": [", "{\"b\": [1, {", "{1: 2}"})
    EXPECT_THAT(column_of(line, {.key = "a"}), Eq(std::nullopt)) << line;
  EXPECT_THAT(column_of("\xef\xbb\xbf{\"a\": 1}", {.key = "a"}), Optional(10u));
}

TEST(LinePlace, ShowsTheWordThatStandsThere) {
  const std::string line = R"({"a": NaN, "b": [1, -Infinity], "c": "NaN"})";
  for (std::size_t column : {7u, 8u, 9u}) {
    EXPECT_EQ(stray_word(line, column).text, "NaN");
    EXPECT_EQ(stray_word(line, column).column, 7u);
  }
  EXPECT_EQ(stray_word(line, line.find("Inf") + 1).text, "-Infinity");
  EXPECT_EQ(stray_word(line, line.rfind("NaN") + 1).text, "") << "in a text";
  for (const std::size_t column : {0u, 1u, 2u, 100u}) EXPECT_EQ(stray_word(line, column).text, "");
}

TEST(LinePlace, KnowsIntegersOfMoreThan64Bits) {
  for (const char* number : {"18446744073709551616", "-9223372036854775809",
                             "99999999999999999999999999", "-99999999999999999999999999"})
    EXPECT_TRUE(is_long_integer(number)) << number;
  for (const char* number : {"", "-", "0", "-1", "18446744073709551615", "-9223372036854775808",
                             "1e30", "18446744073709551616.0", "18446744073709551616x", "NaN"})
    EXPECT_FALSE(is_long_integer(number)) << number;
}

TEST(LineSyntax, NamesTheKeyAndTheWord) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"prompt": "a", "chosen": NaN})", "\"chosen\" is NaN, which is not JSON (column 27)"},
      {R"({"a": [1, 2, nan]})", "\"a\" holds nan, which is not JSON (column 14)"},
      {R"({"a": {"b": [None]}})", "\"a\" holds None, which is not JSON (column 14)"},
      {R"({"a": [{}, [], undefined]})", "\"a\" holds undefined"},
      {R"({"a": Infinity})", "\"a\" is Infinity"},
      {R"({"a": -inf})", "\"a\" is -inf"},
      {R"({"a": 1e999})", "number overflow parsing '1e999', in \"a\""},
      {R"({"a": tru})", "\"a\" is tru"},
      {"{\"a\": \"\xff\"}", "ill-formed UTF-8 byte, in \"a\""},
      {R"({"a": "b)", "in \"a\""}};
  for (const auto& [line, received] : rows) {
    const auto problem = syntax_problem(line);
    ASSERT_TRUE(problem) << line;
    EXPECT_THAT(problem->received, HasSubstr(received)) << line;
  }
  for (const char* line : {"words", "{\"a\": 1,}", "{\"a\": 1} NaN", "[NaN]", "NaN"}) {
    const auto problem = syntax_problem(line);
    ASSERT_TRUE(problem) << line;
    EXPECT_THAT(problem->received, ::testing::Not(HasSubstr("\"a\""))) << line;
  }
  for (const char* line : {"{}", "{\"a\": [1, {\"b\": null}]}", "[]", "1"})
    EXPECT_FALSE(syntax_problem(line)) << line;
}

}  // namespace
}  // namespace accrue::data
