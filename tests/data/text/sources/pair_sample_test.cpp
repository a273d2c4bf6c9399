// Lines with "prompt", "chosen" and "rejected" as pairs, and refused ones.
#include <gmock/gmock.h>

#include "data/fetch.h"
#include "data/folder.h"
#include "data/planted_tokenizers.h"
#include "data/referenced_pairs.h"
#include "data/refusal.h"

namespace accrue::data {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* two_pairs =
    R"({"prompt": "a", "chosen": "bcd", "rejected": "e"})"
    "\n"
    R"({"weight": 0.5, "prompt": "fg", "chosen": "h", "rejected": "ij"})"
    "\n";

class PairLines : public ::testing::Test {
 protected:
  std::unique_ptr<Source> open(const std::string& lines, SourceOptions options = {}) const {
    options.globs = {folder_.write("p.jsonl", lines)};
    options.pairs = true;
    options.context = options.context == 256 ? 8 : options.context;
    return open_source(options, "data.train");
  }
  std::string refused(const std::string& line) const {
    return refusal(Error::Kind::usage, [&] { open(two_pairs + line + "\n"); });
  }
  Folder folder_;
};

TEST_F(PairLines, AreTwoSequencesOfASample) {
  const auto source = open(two_pairs);
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(source->tokens(0), 3 + 1);
  EXPECT_EQ(source->tokens(1), 2 + 3);
  const batch::MicroBatch micro = fetch(*source, {1, 0});
  EXPECT_EQ(micro.sequences_per_sample, 2);
  EXPECT_EQ(micro.tokens, 9);
  EXPECT_THAT(values(micro.inputs),
              ElementsAre('f', 'g', 0, 'f', 'g', 'i', 'a', 'b', 'c', 'a', 0, 0));
  EXPECT_THAT(values(micro.targets),
              ElementsAre(-100, 'h', -100, -100, 'i', 'j', 'b', 'c', 'd', 'e', -100, -100));
  EXPECT_EQ(micro.weights[0][0].item<float>(), 0.5F);
  EXPECT_EQ(micro.weights[2][0].item<float>(), 1);
  EXPECT_THAT(source->fingerprint(), HasSubstr("jsonl, pairs"));
}

TEST_F(PairLines, MayShareRows) {
  const auto source = open(two_pairs, {.packing = true});
  const std::vector<std::int64_t> both{0, 1};
  const batch::MicroBatch micro = fetch_as(*source, both, {5, 6});
  ASSERT_EQ(micro.spans.size(), 4u);
  std::vector<std::int64_t> ids;
  for (const SampleSpan& span : micro.spans) ids.push_back(span.sample_id);
  EXPECT_THAT(ids, ElementsAre(10, 11, 12, 13)) << "randomness of each sequence is its own";
  EXPECT_EQ(batch::sequence_ids(micro), ids);
  EXPECT_LT(micro.inputs.size(0), 4);
}

TEST_F(PairLines, TakeAReference) {
  const std::shared_ptr<const Source> pairs = open(two_pairs);
  const auto with = with_reference(pairs, {.key = "k", .log_probabilities = {-1, -2, -3, -4}});
  const at::Tensor found = fetch(*with, {1, 0}).reference;
  EXPECT_EQ(found[0][1].item<double>(), -4);
  EXPECT_EQ(found[1][0].item<double>(), -1);
  EXPECT_THAT(with->fingerprint(), HasSubstr(", reference k"));
  EXPECT_EQ(fetch(*with_reference(pairs, {.key = "k"}), {0}).reference.abs().max().item<double>(),
            0);
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [&] { with_reference(pairs, {.key = "k", .log_probabilities = {-1}}); }),
              HasSubstr("each of 2 pairs"));
}

TEST_F(PairLines, AreRefusedByFileAndLine) {
  EXPECT_THAT(refused(R"({"prompt": "a", "completion": "b"})"),
              AllOf(HasSubstr("p.jsonl:3"), HasSubstr("none with \"chosen\"")));
  EXPECT_THAT(refused(R"({"prompt": "a", "chosen": "b", "rejected": ""})"),
              AllOf(HasSubstr("p.jsonl:3"), HasSubstr("empty \"rejected\"")));
  EXPECT_THAT(refused(R"({"chosen": "b", "rejected": "c"})"), HasSubstr("none with \"prompt\""));
  EXPECT_THAT(refused(R"({"prompt": "a", "chosen": ["b"], "rejected": "c"})"), HasSubstr("array"));
  EXPECT_THAT(refused(R"({"prompt": [], "chosen": [], "rejected": []})"), HasSubstr("texts"));
  EXPECT_THAT(refused(R"({"prompt": "a", "chosen": "b", "rejected": "c", "weight": -1})"),
              HasSubstr("\"weight\""));
  EXPECT_THAT(refused(R"({"prompt": "abcdefg", "chosen": "hij", "rejected": "c"})"),
              AllOf(HasSubstr("at most 9 tokens"), HasSubstr("the longest of 10")));
  EXPECT_THAT(refused("[]"), HasSubstr("\"chosen\""));
  folder_.write("a.txt", "text");
  EXPECT_THAT(
      refusal(
          Error::Kind::usage,
          [&] { open_source({.globs = {folder_.path("a.txt")}, .pairs = true}, "data.train"); }),
      HasSubstr("\"rejected\""));
}

TEST_F(PairLines, NameTheKeyAndTheColumnOfAValueThatIsNone) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"prompt": null, "chosen": "b", "rejected": "c"})", "\"prompt\" is null (column 12)"},
      {R"({"prompt": "a", "chosen": null, "rejected": "c"})", "\"chosen\" is null (column 27)"},
      {R"({"prompt": "a", "chosen": "b", "rejected": null})", "\"rejected\" is null"},
      {R"({"prompt": "a", "chosen": NaN, "rejected": "c"})",
       "\"chosen\" is NaN, which is not JSON (column 27)"},
      {R"({"prompt": 3, "chosen": "b", "rejected": "c"})", "\"prompt\" is a number (column 12)"},
      {R"({"prompt": "a", "chosen": {"role": "x"}, "rejected": "c"})", "\"chosen\" is an object"},
      {R"({"prompt": "a", "chosen": "b", "rejected": [1]})", "\"rejected\" is an array"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "weight": null})",
       "\"weight\" is null (column 59)"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "weight": NaN})",
       "\"weight\" is NaN, which is not JSON (column 59)"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "weight": [1]})", "\"weight\" is [1]"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "weight": "1"})", "\"weight\" is \"1\""},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "weight": 1e300})", "1e+300"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "weight": 18446744073709551616})",
       "\"weight\" is an integer of more than 64 bits"},
      {R"({"prompt": "a", "chosen": "b", "chosen": "b", "rejected": "c"})", "\"chosen\" twice"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c", "x": [{"k": 1, "k": 1}]})",
       "\"k\" twice"}};
  for (const auto& [line, received] : rows)
    EXPECT_THAT(refused(line), AllOf(HasSubstr("p.jsonl:3: "), HasSubstr(received))) << line;
}

TEST_F(PairLines, NameKeysThatAreNotRead) {
  EXPECT_THAT(open(two_pairs)->remarks(), ElementsAre());
  EXPECT_THAT(open(R"({"prompt": "a", "chosen": "b", "rejected": "c", "tools": [], "score": 1})")
                  ->remarks(),
              ElementsAre(HasSubstr(R"(keys that are not read: "tools" and "score")")));
}

constexpr const char* chat_template =
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST_F(PairLines, MayBeConversations) {
  const std::string file = folder_.write("t/tokenizer.json", planted_with_id(300).dump());
  folder_.write("t/tokenizer_config.json", nlohmann::json{{"chat_template", chat_template}}.dump());
  const auto tokenizer = Tokenizer::open(file, "data.tokenizer");
  const SourceOptions options{.tokenizer = [=] { return tokenizer; }, .context = 64};
  const std::string user = R"({"role": "user", "content": "a"})";
  const auto says = [](const char* text) {
    return R"({"role": "assistant", "content": ")" + std::string(text) + "\"}";
  };
  const std::string first = user + ", " + says("ed") + ", " + user;
  const std::string with_prompt = R"({"prompt": [)" + first + R"(], "chosen": [)" + says("ab") +
                                  R"(], "rejected": [)" + says("b") + "]}\n";
  const std::string without = R"({"prompt": "a", "chosen": [)" + first + ", " + says("ab") +
                              R"(], "rejected": [)" + first + ", " + says("b") + "]}\n";
  const auto source = open(with_prompt + without, options);
  ASSERT_EQ(source->size(), 2);
  for (const std::int64_t pair : {0, 1}) {
    const batch::MicroBatch micro = fetch(*source, {pair});
    for (const std::int64_t row : {0, 1}) {
      std::vector<std::int64_t> learned;
      for (const std::int64_t id : values(micro.targets[row]))
        if (id != -100) learned.push_back(id);
      EXPECT_EQ(tokenizer->decode(learned), row == 0 ? "ab" : "b") << "not what was said before";
    }
  }
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [&] {
                        open(R"({"prompt": [)" + user + R"(], "chosen": [)" + user +
                                 R"(], "rejected": [)" + says("b") + "]}\n",
                             options);
                      }),
              HasSubstr("assistant"));
}

TEST_F(PairLines, OfMessagesMayHaveATextAsPrompt) {
  const std::string file = folder_.write("t/tokenizer.json", planted_with_id(300).dump());
  folder_.write("t/tokenizer_config.json", nlohmann::json{{"chat_template", chat_template}}.dump());
  const auto tokenizer = Tokenizer::open(file, "data.tokenizer");
  const SourceOptions options{.tokenizer = [=] { return tokenizer; }, .context = 64};
  const std::string asks = R"({"role": "user", "content": "a"})";
  const auto pair = [](const std::string& prompt, const std::string& before) {
    const auto answer = [&](const char* text) {
      return "[" + before + R"({"role": "assistant", "content": ")" + text + "\"}]";
    };
    return R"({"prompt": )" + prompt + R"(, "chosen": )" + answer("ab") + R"(, "rejected": )" +
           answer("b") + "}\n";
  };
  for (const std::string& line :
       {pair("\"a\"", ""), pair("\"a\"", asks + ", "), pair("\" a\\n\"", asks + ", "),
        pair("\"\"", asks + ", "), pair("null", asks + ", "), pair("[" + asks + "]", "")}) {
    const auto source = open(line, options);
    const batch::MicroBatch micro = fetch(*source, {0});
    EXPECT_EQ(tokenizer->decode(values(micro.inputs[0])), "<user>a<assistant>") << line;
    std::vector<std::int64_t> learned;
    for (const std::int64_t id : values(micro.targets[0]))
      if (id != -100) learned.push_back(id);
    EXPECT_EQ(tokenizer->decode(learned), "ab") << line;
  }
  for (const std::string& line : {pair("\"other\"", asks + ", "), pair("3", ""), pair("{}", "")})
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(line, options); }),
                AllOf(HasSubstr("p.jsonl:1"), HasSubstr("\"prompt\" as messages")))
        << line;
}

}  // namespace
}  // namespace accrue::data
