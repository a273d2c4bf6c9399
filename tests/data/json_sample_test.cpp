#include "data/text/json_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/data/source.h"

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

JsonSample parse(const std::string& line, std::int64_t vocab_bound = 0) {
  JsonSampleParser parser(vocab_bound);
  const auto problem = parser.parse(line);
  EXPECT_FALSE(problem) << line << ": " << problem->received;
  return parser.sample();
}

TEST(JsonSample, TakesEveryByteOfATextAsALabel) {
  const JsonSample sample = parse(R"({"text": "abc"})");
  EXPECT_EQ(sample.tokens, text_to_bytes("abc"));
  EXPECT_EQ(sample.labels, sample.tokens);
  EXPECT_EQ(sample.weight, 1);
  EXPECT_EQ(sample.length(), 2);
  EXPECT_FALSE(sample.has_ids);
}

TEST(JsonSample, CountsTheCompletionOnlyInWhicheverOrder) {
  for (const char* line :
       {R"({"prompt": "ab", "completion": "cd"})", R"({"completion": "cd", "prompt": "ab"})"}) {
    const JsonSample sample = parse(line);
    EXPECT_EQ(sample.tokens, text_to_bytes("abcd"));
    EXPECT_THAT(sample.labels, ElementsAre(-100, -100, 'c', 'd'));
    EXPECT_TRUE(sample.counts());
  }
  EXPECT_FALSE(parse(R"({"prompt": "abcd", "completion": ""})").counts());
  // The first token is never predicted, whoever wrote it.
  EXPECT_FALSE(parse(R"({"prompt": "", "completion": "a"})").counts());
}

TEST(JsonSample, TakesIdsAndLabelsAsTheyAre) {
  const JsonSample sample =
      parse(R"({"input_ids": [5, 70000, 2], "labels": [-100, 70000, -100], "weight": 0.5})");
  EXPECT_THAT(sample.tokens, ElementsAre(5, 70000, 2));
  EXPECT_THAT(sample.labels, ElementsAre(-100, 70000, -100));
  EXPECT_EQ(sample.weight, 0.5F);
  EXPECT_TRUE(sample.has_ids);
  EXPECT_TRUE(sample.counts());
}

TEST(JsonSample, CountsOnlyLabelsThatArePredictedAndWeighted) {
  EXPECT_FALSE(parse(R"({"input_ids": [5, 6], "labels": [5, -100]})").counts());
  EXPECT_FALSE(parse(R"({"input_ids": [5, 6], "labels": [5, 6], "weight": 0})").counts());
  EXPECT_FALSE(parse(R"({"input_ids": [], "labels": []})").counts());
  EXPECT_TRUE(parse(R"({"input_ids": [5, 6], "labels": [-100, 6], "weight": 1e-3})").counts());
}

TEST(JsonSample, DecodesEscapesAndUnicode) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {R"("\n\t\"\\\/")", "\n\t\"\\/"},
      {R"("\\n\\\\n")", R"(\n\\n)"},
      {R"("\u00e9")", "\xc3\xa9"},
      {"\"\xc3\xa9\"", "\xc3\xa9"},
      {R"("\ud83d\ude00")", "\xf0\x9f\x98\x80"},
      {R"("a\u0000b")", std::string("a\0b", 3)}};
  for (const auto& [json, text] : rows)
    EXPECT_EQ(bytes_to_text(parse("{\"text\": " + json + "}").tokens), text) << json;
}

TEST(JsonSample, PassesOverOtherKeys) {
  const JsonSample sample = parse(
      R"({"meta": {"text": 3, "a": [1, {"labels": null}]}, "id": -1.5, "tags": [], "text": "ab",
          "x": true, "y": null, "attention_mask": [1, 1]})");
  EXPECT_EQ(sample.tokens, text_to_bytes("ab"));
  const std::string deep(100'000, '[');
  EXPECT_EQ(parse("{\"deep\": " + deep + std::string(100'000, ']') + ", \"text\": \"ab\"}").tokens,
            text_to_bytes("ab"));
}

TEST(JsonSample, StartsEachLineAnew) {
  JsonSampleParser parser(0);
  EXPECT_FALSE(parser.parse(R"({"text": "abc", "weight": 3})"));
  EXPECT_TRUE(parser.parse(R"({"weight": 2, "text": [)"));
  EXPECT_FALSE(parser.parse(R"({"input_ids": [1, 2], "labels": [1, 2]})"));
  EXPECT_THAT(parser.sample().tokens, ElementsAre(1, 2));
  EXPECT_EQ(parser.sample().weight, 1);
  EXPECT_TRUE(parser.parse(R"({"completion": "x"})"));
  EXPECT_FALSE(parser.parse(R"({"prompt": "y", "completion": "z"})"));
  EXPECT_EQ(parser.sample().tokens, text_to_bytes("yz"));
}

struct BadLine {
  const char* name;
  std::string line;
  std::string expected_message;
};

class BadLines : public ::testing::TestWithParam<BadLine> {};

TEST_P(BadLines, AreRefused) {
  JsonSampleParser parser(1000);
  const auto problem = parser.parse(GetParam().line);
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->received, HasSubstr(GetParam().expected_message));
  EXPECT_LT(problem->received.size(), 250U);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadLines,
    ::testing::Values(
        BadLine{"no_json", "hello", "column 1"}, BadLine{"cut_short", R"({"text": "ab)", "column"},
        BadLine{"two_objects", R"({"text": "a"} {"text": "b"})", "column 15"},
        BadLine{"trailing_comma", R"({"text": "a",})", "column"},
        BadLine{"not_a_number", R"({"text": "ab", "weight": NaN})", "column"},
        BadLine{"invalid_utf8", "{\"text\": \"a\xff\"}", "UTF-8"},
        BadLine{"lone_surrogate", R"({"text": "\ud83d"})", "surrogate"},
        BadLine{"control_character", "{\"text\": \"a\tb\"}", "control character"},
        BadLine{"long_and_broken", "{\"text\": \"" + std::string(100'000, 'x'), "column"},
        BadLine{"array", R"(["text"])", "an array"}, BadLine{"string", R"("text")", "a string"},
        BadLine{"number", "12", "a number"}, BadLine{"null", "null", "null"},
        BadLine{"no_form", R"({"content": "a"})", "none of these"},
        BadLine{"empty_object", "{}", "none of these"},
        BadLine{"weight_alone", R"({"weight": 1})", "none of these"},
        BadLine{"two_forms", R"({"text": "a", "prompt": "b", "completion": "c"})", "more than one"},
        BadLine{"text_and_ids", R"({"text": "a", "input_ids": [1], "labels": [1]})",
                "more than one"},
        BadLine{"prompt_alone", R"({"prompt": "a"})", R"("prompt" without "completion")"},
        BadLine{"completion_alone", R"({"completion": "a"})", R"("completion" without "prompt")"},
        BadLine{"ids_alone", R"({"input_ids": [1]})", R"("input_ids" without "labels")"},
        BadLine{"labels_alone", R"({"labels": [1]})", R"("labels" without "input_ids")"},
        BadLine{"twice", R"({"text": "a", "text": "b"})", R"("text" twice)"},
        BadLine{"text_is_a_number", R"({"text": 5})", R"("text" is a number)"},
        BadLine{"text_is_null", R"({"text": null})", R"("text" is null)"},
        BadLine{"text_is_a_list", R"({"text": ["a"]})", R"("text" is an array)"},
        BadLine{"text_is_an_object", R"({"text": {"a": "b"}})", R"("text" is an object)"},
        BadLine{"ids_are_a_string", R"({"input_ids": "1 2", "labels": [1]})",
                R"("input_ids" is a string)"},
        BadLine{"ids_hold_a_string", R"({"input_ids": [1, "2"], "labels": [1, 2]})",
                R"("input_ids" holds a string)"},
        BadLine{"ids_hold_a_fraction", R"({"input_ids": [1.5], "labels": [1]})",
                "holds a number that is no token id"},
        BadLine{"ids_are_nested", R"({"input_ids": [[1]], "labels": [1]})", "holds an array"},
        BadLine{"ids_hold_an_object", R"({"input_ids": [{}], "labels": [1]})", "holds an object"},
        BadLine{"ids_hold_a_boolean", R"({"input_ids": [true], "labels": [1]})", "holds a boolean"},
        BadLine{"negative_id", R"({"input_ids": [1, -1], "labels": [1, 2]})",
                R"("input_ids" holds -1)"},
        BadLine{"ignored_id", R"({"input_ids": [1, -100], "labels": [1, 2]})",
                R"("input_ids" holds -100)"},
        BadLine{"negative_label", R"({"input_ids": [1, 2], "labels": [-100, -1]})",
                R"("labels" holds -1)"},
        BadLine{"huge_id", R"({"input_ids": [99999999999999999999], "labels": [1]})",
                "no token id"},
        BadLine{"id_above_int64", R"({"input_ids": [18446744073709551615], "labels": [1]})",
                "no token id"},
        BadLine{"id_outside", R"({"input_ids": [1, 1000], "labels": [1, 2]})",
                "id 1000 at position 1"},
        BadLine{"label_outside", R"({"input_ids": [1, 2], "labels": [1, 1234]})",
                "label 1234 at position 1"},
        BadLine{"other_length", R"({"input_ids": [1, 2, 3], "labels": [1, 2]})",
                "3 input_ids and 2 labels"},
        BadLine{"negative_weight", R"({"text": "ab", "weight": -0.5})", "-0.5"},
        BadLine{"negative_whole_weight", R"({"text": "ab", "weight": -2})", "-2"},
        BadLine{"infinite_weight", R"({"text": "ab", "weight": 1e999})", "1e999"},
        BadLine{"weight_above_fp32", R"({"text": "ab", "weight": 1e300})", "1e+300"},
        BadLine{"weight_is_a_string", R"({"text": "ab", "weight": "1"})",
                R"("weight" is a string)"},
        BadLine{"weight_is_a_list", R"({"text": "ab", "weight": [1]})", R"("weight" is an array)"},
        BadLine{"padded", R"({"input_ids": [1, 0], "labels": [1, 0], "attention_mask": [1, 0]})",
                "holds 0"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(JsonSample, ChecksIdsOnlyWhereTheVocabularyIsKnown) {
  const std::string line = R"({"input_ids": [1, 999], "labels": [-100, 999]})";
  EXPECT_THAT(parse(line).tokens, ElementsAre(1, 999));
  EXPECT_THAT(parse(line, 1000).tokens, ElementsAre(1, 999));
  EXPECT_TRUE(JsonSampleParser(999).parse(line));
}

}  // namespace
}  // namespace accrue::data
