#include "data/text/sources/column_source.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/data/source.h"
#include "data/folder.h"
#include "data/refusal.h"

namespace accrue::data {
namespace {

using ::testing::AllOf;
using testing::Folder;
using ::testing::HasSubstr;
using testing::refusal;

constexpr const char* three_lines =
    R"({"input_ids": [5, 6, 7], "attention_mask": [1, 1, 0], "labels": [-100, 2, 3], "extent": 1})"
    "\n"
    R"({"other": "text", "input_ids": [8], "attention_mask": [1], "labels": [4], "extent": 0.5})"
    "\n\n"
    R"({"extent": -2, "input_ids": [9, 1], "attention_mask": [1, 1], "labels": [0, 1]})";

const std::vector<std::string> four_columns{"input_ids", "attention_mask", "labels", "extent"};

class Columns : public ::testing::Test {
 protected:
  std::unique_ptr<Source> open(const std::string& lines, std::vector<std::string> columns,
                               std::int64_t context = 8) const {
    return open_source({.globs = {folder_.write("lines.jsonl", lines)},
                        .context = context,
                        .columns = std::move(columns)},
                       "data.train");
  }
  static batch::MicroBatch fetch(const Source& source, std::vector<std::int64_t> indices) {
    return source.fetch(indices);
  }
  std::string refused(const std::string& lines, const std::vector<std::string>& columns,
                      std::int64_t context = 8) const {
    return refusal(Error::Kind::usage, [&] { open(lines, columns, context); });
  }

  Folder folder_;
};

at::Tensor whole(std::initializer_list<std::int64_t> values, at::IntArrayRef shape) {
  return at::tensor(std::vector<std::int64_t>(values)).view(shape);
}

TEST_F(Columns, AreTensorsByNameThatAreNotShifted) {
  const auto source = open(three_lines, four_columns);
  EXPECT_EQ(source->size(), 3);
  EXPECT_EQ(source->tokens(0), 3);
  EXPECT_FALSE(source->uniform_tokens().has_value());
  const batch::MicroBatch micro = fetch(*source, {2, 0});
  EXPECT_TRUE(at::equal(micro.columns.at("input_ids"), whole({9, 1, 0, 5, 6, 7}, {2, 3})));
  EXPECT_TRUE(at::equal(micro.columns.at("attention_mask"), whole({1, 1, 0, 1, 1, 0}, {2, 3})));
  EXPECT_TRUE(at::equal(micro.columns.at("labels"), whole({0, 1, -100, -100, 2, 3}, {2, 3})));
  EXPECT_TRUE(at::equal(micro.columns.at("extent"), at::tensor({-2.0F, 1.0F})));
  EXPECT_TRUE(at::equal(micro.inputs, micro.columns.at("input_ids")));
  EXPECT_TRUE(at::equal(micro.targets, micro.columns.at("labels")));
  EXPECT_EQ(micro.tokens, 5);
  EXPECT_TRUE(at::equal(fetch(*source, {1}).columns.at("extent"), at::tensor({0.5F})));
}

TEST_F(Columns, MakeAnAttentionMaskWhereLinesHaveNone) {
  const auto source = open("{\"ids\": [1, 2, 3]}\n{\"ids\": [0]}\n", {"ids", "attention_mask"});
  const batch::MicroBatch micro = fetch(*source, {0, 1});
  EXPECT_TRUE(at::equal(micro.columns.at("attention_mask"), whole({1, 1, 1, 1, 0, 0}, {2, 3})));
  EXPECT_FALSE(micro.targets.defined());
}

TEST_F(Columns, MayBeListsWithinLists) {
  const auto source = open(
      "{\"x\": [[1, 2], [3, 4]], \"targets\": true}\n"
      "{\"x\": [[5, 6.5]], \"targets\": 0}\n",
      {"x", "targets"});
  const batch::MicroBatch micro = fetch(*source, {1, 0});
  EXPECT_TRUE(at::equal(
      micro.inputs, at::tensor({5.0F, 6.5F, 0.0F, 0.0F, 1.0F, 2.0F, 3.0F, 4.0F}).view({2, 2, 2})));
  EXPECT_TRUE(at::equal(micro.targets, whole({0, 1}, {2})));
}

TEST_F(Columns, OfNumbersAloneAreOfOneLength) {
  const auto source =
      open("{\"x\": 1, \"labels\": 0}\n{\"x\": 2, \"labels\": 1}\n", {"x", "labels"});
  EXPECT_EQ(source->uniform_tokens(), 1);
  EXPECT_TRUE(at::equal(fetch(*source, {1, 0}).inputs, whole({2, 1}, {2})));
}

TEST_F(Columns, HaveAFingerprintOfTheirNames) {
  const std::string of_all = open(three_lines, four_columns)->fingerprint();
  EXPECT_EQ(open(three_lines, four_columns)->fingerprint(), of_all);
  EXPECT_NE(open(three_lines, {"input_ids", "labels"})->fingerprint(), of_all);
  EXPECT_NE(open(std::string(three_lines) + " ", four_columns)->fingerprint(), of_all);
}

TEST_F(Columns, TellHowLongListsAreWithoutPadding) {
  const batch::MicroBatch micro = fetch(*open(three_lines, four_columns), {2, 0});
  EXPECT_TRUE(at::equal(micro.columns.at("input_ids/length"), whole({2, 3}, {2})));
  EXPECT_FALSE(micro.columns.contains("extent/length")) << "numbers have none";
}

TEST_F(Columns, RefuseLinesThatDoNotFitByTheirPlace) {
  EXPECT_THAT(refused("{\"x\": [1]}\n{\"y\": [1]}\n", {"x"}),
              AllOf(HasSubstr("lines.jsonl:2"), HasSubstr("a field \"x\"")));
  EXPECT_THAT(refused("{\"x\": \"a\"}\n", {"x"}), HasSubstr("lines.jsonl:1: string"));
  EXPECT_THAT(refused("{\"x\": [1, [2]]}\n", {"x"}), HasSubstr("numbers, or lists of numbers"));
  EXPECT_THAT(refused("{\"x\": []}\n", {"x"}), HasSubstr("lines.jsonl:1: lists of another form"));
  EXPECT_THAT(refused("{\"x\": 9007199254740993}\n", {"x"}), HasSubstr("lines.jsonl:1"));
  EXPECT_THAT(refused("{\"x\": [[1, 2]]}\n{\"x\": [[1]]}\n", {"x"}),
              AllOf(HasSubstr("lines.jsonl:2"), HasSubstr("the first line")));
  EXPECT_THAT(refused("{\"x\": [1]}\n{\"x\": 1}\n", {"x"}), HasSubstr("lines.jsonl:2"));
  const std::string deep = std::string(100'000, '[') + "1" + std::string(100'000, ']');
  EXPECT_THAT(refused("{\"x\": " + deep + "}\n", {"x"}), HasSubstr("nested at most"));
  EXPECT_THAT(refused("{\"x\": [[[[[[[[[[1]]]]]]]]]]}\n", {"x"}),
              HasSubstr("lists of another form"));
  EXPECT_THAT(refused("[1]\n", {"x"}), HasSubstr("a JSON object"));
  EXPECT_THAT(refused("{\"x\": 1\n", {"x"}), HasSubstr("syntax error"));
  EXPECT_THAT(refused("{\"x\": [1, 2, 3]}\n", {"x"}, 2), HasSubstr("model.context = 3"));
  EXPECT_THAT(refused("{\"x\": [1]}\n", {"x", "x"}), HasSubstr("a name twice"));
}

TEST_F(Columns, NameTheKeyAndTheColumnOfAValueThatIsNone) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"x": NaN})", "lines.jsonl:1: \"x\" is NaN, which is not JSON (column 7)"},
      {R"({"x": [1, -Infinity]})", "\"x\" holds -Infinity, which is not JSON (column 11)"},
      {R"({"y": 1, "x": "a"})", "lines.jsonl:1: string (column 15)"},
      {R"({"x": {"a": 1}})", "lines.jsonl:1: object (column 7)"},
      {R"({"x": [1, null]})", "lists of another form, empty ones"},
      {R"({"x": [1, "a"]})", "(column 7)"},
      {R"({"x": null})", "a field \"x\""},
      {R"({})", "a field \"x\""},
      {R"({"x": 18446744073709551616})", "\"x\" is an integer of more than 64 bits (column 7)"},
      {R"({"x": [18446744073709551616]})", "integers beyond 2^53"},
      {R"({"x": 9007199254740993})", "a number beyond 2^53"},
      {R"({"x": 1, "x": 1})", "\"x\" twice"},
      {R"({"x": 1, "y": {"z": 1, "z": 1}})", "\"z\" twice"},
      {R"({"x": 1e999})", "number overflow"}};
  for (const auto& [line, received] : rows)
    EXPECT_THAT(refused(std::string(line) + "\n", {"x"}), HasSubstr(received)) << line;
  EXPECT_THAT(
      open(R"({"x": [1], "other": null, "another": 18446744073709551616})", {"x"})->remarks(),
      ::testing::ElementsAre())
      << "data.columns says what is read";
}

TEST_F(Columns, RefuseWhatIsNoLines) {
  const std::string text = folder_.write("text.txt", "words");
  EXPECT_THAT(
      refusal(
          Error::Kind::usage,
          [&] { open_source({.globs = {text}, .context = 4, .columns = {"x"}}, "data.train"); }),
      HasSubstr("lines of JSON, or tables"));
  const std::string lines = folder_.write("lines.jsonl", "{\"x\": [1]}\n");
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [&] {
                        open_source(
                            {.globs = {lines}, .context = 4, .packing = true, .columns = {"x"}},
                            "data.train");
                      }),
              HasSubstr("data.packing = false"));
}

TEST_F(Columns, OfValidationHaveTheTypesOfTrainingData) {
  const auto train = open("{\"x\": [1, 2.5]}\n", {"x"});
  const auto val = open("{\"x\": [3]}\n", {"x"});
  EXPECT_EQ(fetch(*val, {0}).inputs.scalar_type(), at::kLong) << "by themselves";
  take_column_types(*train, *val, "data.val");
  EXPECT_TRUE(at::equal(fetch(*val, {0}).inputs, at::tensor({3.0F}).view({1, 1})));
}

TEST_F(Columns, OfValidationThatAreOfAnotherFormAreRefusedByName) {
  const auto refused_beside = [&](const std::string& train, const std::string& val,
                                  const std::vector<std::string>& columns) {
    const auto known = open(train, columns);
    const auto source = open(val, columns);
    return refusal(Error::Kind::usage, [&] { take_column_types(*known, *source, "data.val"); });
  };
  const auto names_x = AllOf(HasSubstr("data.val"), HasSubstr("another \"x\""));
  EXPECT_THAT(refused_beside("{\"x\": [1]}\n", "{\"x\": [0.5]}\n", {"x"}), names_x);
  EXPECT_THAT(refused_beside("{\"x\": [1]}\n", "{\"x\": 1}\n", {"x"}), names_x);
  EXPECT_THAT(refused_beside("{\"x\": [[1]]}\n", "{\"x\": [[1, 2]]}\n", {"x"}), names_x);
  EXPECT_THAT(refused_beside("{\"x\": [1]}\n", "{\"x\": [1], \"attention_mask\": [1]}\n",
                             {"x", "attention_mask"}),
              HasSubstr("another \"attention_mask\""));
}

TEST_F(Columns, SeeALineThatWasChangedSince) {
  const auto source = open("{\"x\": [1, 2]}\n{\"x\": [3, 4]}\n", {"x"});
  folder_.write("lines.jsonl", "{\"x\": [1, 2]}\n{\"x\": [3]   }\n");
  const std::vector<std::int64_t> second{1};
  try {
    source->fetch(second);
    ADD_FAILURE() << "nothing was seen";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::runtime);
    EXPECT_THAT(error.what(), HasSubstr("lines.jsonl"));
  }
}

}  // namespace
}  // namespace accrue::data
