#include "data/text/samples/json_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/data/source.h"

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  // The first token is never predicted, whichever part has it.
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

TEST(JsonSample, PassesOverOtherKeysAndNamesThem) {
  JsonSampleParser parser(0);
  ASSERT_FALSE(parser.parse(
      R"({"meta": {"text": 3, "a": [1, {"labels": null}]}, "id": -1.5, "tags": [], "text": "ab",
          "x": true, "y": null, "attention_mask": [1, 1], "input": {"a": [1]}, "big": 1e30,
          "bigger": 123456789012345678901234567890})"));
  EXPECT_EQ(parser.sample().tokens, text_to_bytes("ab"));
  EXPECT_THAT(parser.unread_keys(),
              ElementsAre("meta", "id", "tags", "x", "y", "big", "bigger", "input"));
  ASSERT_FALSE(parser.parse(R"({"text": "ab", "weight": 1})"));
  EXPECT_THAT(parser.unread_keys(), ElementsAre());
  const std::string deep(100'000, '[');
  EXPECT_EQ(parse("{\"deep\": " + deep + std::string(100'000, ']') + ", \"text\": \"ab\"}").tokens,
            text_to_bytes("ab"));
}

/// The samples of a line, as text.
std::string shown_samples(const std::string& line) {
  JsonSampleParser parser(0);
  if (const auto problem = parser.parse(line)) return "refused: " + problem->received;
  std::string text;
  for (const JsonSample& sample : parser.samples()) {
    text += text.empty() ? "" : " | ";
    for (std::size_t i = 0; i < sample.tokens.size(); ++i)
      text += (i == 0 ? "" : " ") + std::to_string(sample.tokens[i]) +
              (sample.labels[i] == sample.tokens[i] ? "!" : "");
  }
  return text;
}

/// Four ids, all of them labels, followed by `fields`.
std::string with_ids(const std::string& fields) {
  return R"({"input_ids": [5, 6, 7, 8], "labels": [5, 6, 7, 8])" + fields + "}";
}

struct BesideIds {
  const char* fields;
  const char* shown;  ///< learned tokens with a mark
};

TEST(JsonSample, TakesMasksOfWhatIsLearned) {
  const std::pair<const char*, const char*> masks[] = {{"[0, 0, 1, 1]", "5 6 7! 8!"},
                                                       {"[1, 1, 1, 1]", "5! 6! 7! 8!"},
                                                       {"[0, 0, 0, 0]", "5 6 7 8"},
                                                       {"[true, false, true, false]", "5! 6 7! 8"},
                                                       {"[1.0, 0.0, 0, -0.0]", "5! 6 7 8"}};
  for (const char* name : {"completion_mask", "assistant_masks", "loss_mask"})
    for (const auto& [mask, expected] : masks) {
      const std::string field = '"' + std::string(name) + "\": " + mask;
      EXPECT_EQ(shown_samples(with_ids(", " + field)), expected) << field;
      EXPECT_EQ(shown_samples("{" + field + R"(, "input_ids": [5, 6, 7, 8]})"), expected)
          << "the ids are the labels: " << field;
    }
  const BesideIds rows[] = {
      {R"(, "loss_mask": [0, 1, 1, 1], "completion_mask": [1, 1, 0, 1])", "5 6! 7 8!"},
      {R"(, "loss_mask": [1, 1, 1, 0], "assistant_masks": [0, 1, 1, 1],
            "completion_mask": [1, 1, 0, 1])",
       "5 6! 7 8"},
      {R"(, "weight": 2, "loss_mask": [1, 0, 1, 1], "attention_mask": [1, 1, 1, 1])",
       "5! 6 7! 8!"}};
  for (const auto& [fields, expected] : rows)
    EXPECT_EQ(shown_samples(with_ids(fields)), expected) << fields;
  EXPECT_EQ(
      shown_samples(R"({"input_ids": [5, 6, 7], "labels": [-100, 6, 7], "loss_mask": [1, 1, 0]})"),
      "5 6! 7")
      << "a label that is ignored stays so";
}

TEST(JsonSample, TakesPackedSamplesApart) {
  const BesideIds rows[] = {
      {R"(, "position_ids": [0, 1, 2, 3])", "5! 6! 7! 8!"},
      {R"(, "position_ids": [0, 1, 0, 1])", "5! 6! | 7! 8!"},
      {R"(, "position_ids": [0, 0, 1, 2])", "5! | 6! 7! 8!"},
      {R"(, "position_ids": [0, 1, 2, 0])", "5! 6! 7! | 8!"},
      {R"(, "position_ids": [0, 0, 0, 0])", "5! | 6! | 7! | 8!"},
      {R"(, "seq_lengths": [4])", "5! 6! 7! 8!"},
      {R"(, "seq_lengths": [2, 2])", "5! 6! | 7! 8!"},
      {R"(, "seq_lengths": [1, 3])", "5! | 6! 7! 8!"},
      {R"(, "seq_lengths": [3, 1])", "5! 6! 7! | 8!"},
      {R"(, "seq_lengths": [2, 2], "position_ids": [0, 1, 0, 1])", "5! 6! | 7! 8!"},
      {R"(, "loss_mask": [1, 0, 0, 1], "seq_lengths": [2, 2])", "5! 6 | 7 8!"}};
  for (const auto& [fields, expected] : rows)
    EXPECT_EQ(shown_samples(with_ids(fields)), expected) << fields;
  JsonSampleParser parser(0);
  ASSERT_FALSE(parser.parse(with_ids(R"(, "seq_lengths": [1, 3], "weight": 0.5)")));
  for (const JsonSample& sample : parser.samples()) {
    EXPECT_EQ(sample.weight, 0.5F);
    EXPECT_TRUE(sample.has_ids);
  }
  EXPECT_FALSE(parser.samples()[0].counts()) << "nothing predicts its only token";
  EXPECT_TRUE(parser.samples()[1].counts());
  WholeSampleParser whole(std::make_unique<JsonSampleParser>(0));
  ASSERT_FALSE(whole.parse(with_ids(R"(, "seq_lengths": [1, 3])")));
  EXPECT_EQ(whole.samples().size(), 2u);
  EXPECT_EQ(whole.samples()[0].length(), 1);
}

TEST(JsonSample, TakesTheAnswersOfAlpacaAsCompletions) {
  const auto parts = [](const std::string& line) {
    JsonSampleParser parser(0);
    if (const auto problem = parser.parse(line)) return "refused: " + problem->received;
    std::string given, learned;
    const JsonSample& sample = parser.sample();
    for (std::size_t i = 0; i < sample.tokens.size(); ++i)
      (sample.labels[i] == -100 ? given : learned) += static_cast<char>(sample.tokens[i]);
    EXPECT_EQ(parser.form(), LineForm::alpaca);
    EXPECT_THAT(parser.unread_keys(), ElementsAre());
    return given + "[" + learned + "]";
  };
  const std::pair<const char*, const char*> rows[] = {
      {R"({"instruction": "Add.", "input": "2 3", "output": "5"})", "Add.\n2 3\n[5]"},
      {R"({"output": "5", "input": "", "instruction": "Add."})", "Add.\n[5]"},
      {R"({"instruction": "Add.", "output": "5"})", "Add.\n[5]"},
      {R"({"instruction": "Add.", "input": null, "output": "5", "weight": 2})", "Add.\n[5]"},
      {R"({"instruction": "", "input": "2 3", "output": "5"})", "2 3\n[5]"},
      {R"({"instruction": "Add.", "output": "5", "system": "", "history": []})", "Add.\n[5]"},
      {R"({"instruction": "Add.", "output": "5", "system": null, "history": null})", "Add.\n[5]"},
      {R"({"instruction": "Add.", "output": 5})", "refused: \"output\" is a number"},
      {R"({"instruction": ["Add."], "output": "5"})", "refused: \"instruction\" is an array"},
      {R"({"instruction": null, "output": "5"})", "refused: \"instruction\" is null"},
      {R"({"instruction": "Add.", "input": 3, "output": "5"})", "refused: \"input\" is a number"},
      {R"({"instruction": "Add.", "output": "5", "system": "Be brief."})",
       "refused: a line that is read as text"},
      {R"({"instruction": "Add.", "output": "5", "history": [["a", "b"]]})",
       "refused: a line that is read as text"},
      {R"({"instruction": "Add."})", "refused: \"instruction\" without \"output\""},
      {R"({"input": "2 3", "output": "5"})", "refused: \"output\" without \"instruction\""},
      {R"({"instruction": "Add.", "output": "5", "prompt": "a", "completion": "b"})",
       "refused: more than one of these"}};
  for (const auto& [line, expected] : rows) EXPECT_EQ(parts(line), expected) << line;
  JsonSampleParser parser(0);
  ASSERT_FALSE(parser.parse(R"({"text": "ab", "output": "c", "history": [1]})"));
  EXPECT_EQ(parser.form(), LineForm::own);
  EXPECT_THAT(parser.unread_keys(), ElementsAre("output", "history"));
  ASSERT_FALSE(parser.parse(
      R"({"instruction": "Add.", "output": "5", "text": "Add. 5", "id": 1, "input": ""})"));
  EXPECT_EQ(parser.form(), LineForm::alpaca);
  EXPECT_EQ(parser.sample().tokens, text_to_bytes("Add.\n5"));
  EXPECT_THAT(parser.unread_keys(), ElementsAre("id", "text"));
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
    ::testing::ValuesIn(std::vector<BadLine>{
        BadLine{"no_json", "hello", "column 1"},
        BadLine{"cut_short", R"({"text": "ab)", "column"},
        BadLine{"two_objects", R"({"text": "a"} {"text": "b"})", "column 15"},
        BadLine{"trailing_comma", R"({"text": "a",})", "column"},
        BadLine{"not_a_number", R"({"text": "ab", "weight": NaN})", "column"},
        BadLine{"invalid_utf8", "{\"text\": \"a\xff\"}", "UTF-8"},
        BadLine{"lone_surrogate", R"({"text": "\ud83d"})", "surrogate"},
        BadLine{"control_character", "{\"text\": \"a\tb\"}", "control character"},
        BadLine{"long_and_broken", "{\"text\": \"" + std::string(100'000, 'x'), "column"},
        BadLine{"array", R"(["text"])", "an array"},
        BadLine{"string", R"("text")", "a string"},
        BadLine{"number", "12", "a number"},
        BadLine{"null", "null", "null"},
        BadLine{"no_form", R"({"content": "a"})", "none of these"},
        BadLine{"empty_object", "{}", "none of these"},
        BadLine{"weight_alone", R"({"weight": 1})", "none of these"},
        BadLine{"two_forms", R"({"text": "a", "prompt": "b", "completion": "c"})", "more than one"},
        BadLine{"text_and_ids", R"({"text": "a", "input_ids": [1], "labels": [1]})",
                "more than one"},
        BadLine{"prompt_alone", R"({"prompt": "a"})", R"("prompt" without "completion")"},
        BadLine{"completion_alone", R"({"completion": "a"})", R"("completion" without "prompt")"},
        BadLine{"lines_of_messages", R"({"messages": []})", "\"messages\""},
        BadLine{"unknown_twice", R"({"text": "a", "id": 1, "id": 1})", R"("id" twice)"},
        BadLine{"nested_twice", R"({"text": "a", "meta": [{"k": 1, "l": 2, "k": 1}]})",
                R"("k" twice)"},
        BadLine{"mask_twice", with_ids(R"(, "loss_mask": [1,1,1,1], "loss_mask": [1,1,1,1])"),
                R"("loss_mask" twice)"},
        BadLine{"short_mask", with_ids(R"(, "completion_mask": [1, 1, 1])"),
                R"(4 input_ids and 3 in "completion_mask")"},
        BadLine{"long_mask", with_ids(R"(, "loss_mask": [1, 1, 1, 1, 1])"), "4 input_ids and 5"},
        BadLine{"empty_mask", with_ids(R"(, "assistant_masks": [])"), "4 input_ids and 0"},
        BadLine{"mask_of_2", with_ids(R"(, "loss_mask": [1, 2, 1, 1])"),
                R"("loss_mask" holds 2 (column 70))"},
        BadLine{"mask_of_minus_1", with_ids(R"(, "loss_mask": [1, -1, 1, 1])"), "holds -1"},
        BadLine{"mask_of_a_half", with_ids(R"(, "loss_mask": [1, 0.5, 1, 1])"), "holds 0.5"},
        BadLine{"mask_of_text", with_ids(R"(, "loss_mask": ["1", 1, 1, 1])"), "holds a string"},
        BadLine{"mask_with_null", with_ids(R"(, "loss_mask": [1, 1, null, 1])"), "holds null"},
        BadLine{"nested_mask", with_ids(R"(, "loss_mask": [[1, 1, 1, 1]])"), "holds an array"},
        BadLine{"mask_is_null", with_ids(R"(, "assistant_masks": null)"),
                R"("assistant_masks" is null)"},
        BadLine{"mask_is_a_number", with_ids(R"(, "completion_mask": 1)"), "is a number"},
        BadLine{"mask_is_a_text", with_ids(R"(, "completion_mask": "1111")"), "is a string"},
        BadLine{"mask_is_an_object", with_ids(R"(, "completion_mask": {})"), "is an object"},
        BadLine{"mask_of_text_line", R"({"text": "ab", "loss_mask": [0, 1]})",
                R"("loss_mask" without "input_ids")"},
        BadLine{"mask_alone", R"({"completion_mask": [0, 1]})", "none of these"},
        BadLine{"positions_from_1", with_ids(R"(, "position_ids": [1, 2, 3, 4])"), "1 at place 0"},
        BadLine{"positions_with_a_gap", with_ids(R"(, "position_ids": [0, 1, 3, 4])"),
                "3 at place 2, behind 1"},
        BadLine{"positions_that_stand", with_ids(R"(, "position_ids": [0, 1, 1, 2])"),
                "1 at place 2, behind 1"},
        BadLine{"positions_backwards", with_ids(R"(, "position_ids": [0, 1, 2, 1])"),
                "1 at place 3, behind 2"},
        BadLine{"positions_from_1_again", with_ids(R"(, "position_ids": [0, 1, 1, 0])"),
                "1 at place 2"},
        BadLine{"negative_positions", with_ids(R"(, "position_ids": [-1, 0, 1, 2])"), "holds -1"},
        BadLine{"positions_of_reals", with_ids(R"(, "position_ids": [0.0, 1.0, 2.0, 3.0])"),
                "holds 0.0"},
        BadLine{"few_positions", with_ids(R"(, "position_ids": [0, 1])"), "4 input_ids and 2"},
        BadLine{"positions_are_null", with_ids(R"(, "position_ids": null)"), "is null"},
        BadLine{"positions_of_text", R"({"text": "ab", "position_ids": [0, 1]})",
                R"("position_ids" without "input_ids")"},
        BadLine{"lengths_of_less", with_ids(R"(, "seq_lengths": [1, 2])"), "of 3 tokens"},
        BadLine{"lengths_of_more", with_ids(R"(, "seq_lengths": [2, 3])"), "of more tokens"},
        BadLine{"length_of_0", with_ids(R"(, "seq_lengths": [4, 0])"), "with 0"},
        BadLine{"negative_length", with_ids(R"(, "seq_lengths": [5, -1])"), "holds -1"},
        BadLine{"no_lengths", with_ids(R"(, "seq_lengths": [])"), "of 0 tokens"},
        BadLine{"length_is_a_number", with_ids(R"(, "seq_lengths": 4)"), "is a number"},
        BadLine{"length_is_null", with_ids(R"(, "seq_lengths": null)"), "is null"},
        BadLine{"lengths_overflow",
                with_ids(R"(, "seq_lengths": [9223372036854775807, 9223372036854775807])"),
                "of more tokens"},
        BadLine{"lengths_and_positions",
                with_ids(R"(, "seq_lengths": [1, 3], "position_ids": [0, 1, 0, 1])"), "others"},
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
        BadLine{"weight_is_null", R"({"text": "ab", "weight": null})",
                R"("weight" is null (column 26))"},
        BadLine{"weight_is_nan", R"({"text": "ab", "weight": NaN})",
                R"("weight" is NaN, which is not JSON (column 26))"},
        BadLine{"weight_is_infinity", R"({"weight":-Infinity, "text": "ab"})",
                R"("weight" is -Infinity, which is not JSON (column 11))"},
        BadLine{"weight_is_none", R"({"weight": None, "text": "ab"})", R"("weight" is None)"},
        BadLine{"weight_is_true", R"({"text": "ab", "weight": true})", "is a boolean"},
        BadLine{"weight_of_many_digits", R"({"text": "ab", "weight": 1180591620717411303424})",
                "an integer of more than 64 bits (column 26)"},
        BadLine{"weight_twice", R"({"text": "ab", "weight": 1, "weight": 1})", R"("weight" twice)"},
        BadLine{"nan_among_ids", R"({"input_ids": [1, NaN], "labels": [1, 2]})",
                R"("input_ids" holds NaN)"},
        BadLine{"nan_elsewhere", R"({"score": NaN, "text": "ab"})", R"("score" is NaN)"},
        BadLine{"nan_within", R"({"meta": {"score": NaN}, "text": "ab"})", R"("meta" holds NaN)"},
        BadLine{"weight_is_a_list", R"({"text": "ab", "weight": [1]})", R"("weight" is an array)"},
        BadLine{"padded", R"({"input_ids": [1, 0], "labels": [1, 0], "attention_mask": [1, 0]})",
                "holds 0"}}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(JsonSample, TakesWeightsOf64Bits) {
  EXPECT_EQ(parse(R"({"text": "ab", "weight": 18446744073709551615})").weight,
            18446744073709551615.0F);
}

TEST(JsonSample, HasAtMost65535SamplesInALine) {
  const auto line_of = [](std::size_t count) {
    std::string zeros;
    for (std::size_t i = 0; i < count; ++i) zeros += i == 0 ? "0" : ",0";
    return R"({"input_ids": [)" + zeros + R"(], "labels": [)" + zeros + R"(], "position_ids": [)" +
           zeros + "]}";
  };
  JsonSampleParser parser(0);
  EXPECT_FALSE(parser.parse(line_of(65'535)));
  EXPECT_EQ(parser.samples().size(), 65'535u);
  EXPECT_THAT(parser.parse(line_of(65'536))->expected, HasSubstr("at most 65535 samples"));
}

TEST(JsonSample, SeesAKeyThatIsThereTwiceAmongMany) {
  std::string keys;
  for (int i = 0; i < 200; ++i) keys += "\"k" + std::to_string(i) + "\": {\"k0\": 0}, ";
  JsonSampleParser parser(0);
  EXPECT_FALSE(parser.parse("{" + keys + R"("text": "ab"})"));
  EXPECT_EQ(parser.unread_keys().size(), 200u);
  for (const char* again : {"k0", "k31", "k32", "k199"})
    EXPECT_THAT(parser.parse("{" + keys + '"' + again + R"(": 1, "text": "ab"})")->received,
                HasSubstr('"' + std::string(again) + "\" twice"));
}

TEST(JsonSample, ChecksIdsOnlyWhereTheVocabularyIsKnown) {
  const std::string line = R"({"input_ids": [1, 999], "labels": [-100, 999]})";
  EXPECT_THAT(parse(line).tokens, ElementsAre(1, 999));
  EXPECT_THAT(parse(line, 1000).tokens, ElementsAre(1, 999));
  EXPECT_TRUE(JsonSampleParser(999).parse(line));
}

}  // namespace
}  // namespace accrue::data
