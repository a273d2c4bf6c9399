// Conversations as samples: what is given, what is learned, and what is refused.
#include <gmock/gmock.h>

#include "data/folder.h"
#include "data/planted_tokenizers.h"
#include "data/refusal.h"

namespace accrue::data {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* plain_template =
    "{{ bos_token }}{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<last>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
/// Shows only the last turn's thoughts.
constexpr const char* forgetting_template =
    "{% for message in messages %}<{{ message['role'] }}>"
    "{% if message['role'] == 'assistant' and loop.last %}ab{% endif %}{{ message['content'] }}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

class ChatLines : public ::testing::Test {
 protected:
  std::shared_ptr<const Tokenizer> tokenizer(const nlohmann::json& settings) const {
    const std::string file = folder_.write("t/tokenizer.json", planted_with_id(300).dump());
    folder_.write("t/tokenizer_config.json", settings.dump());
    return Tokenizer::open(file, "data.tokenizer");
  }
  std::unique_ptr<Source> open(const std::string& lines, const nlohmann::json& settings,
                               std::optional<Format> format = {}, bool packing = false) const {
    folder_.write("a.jsonl", lines);
    return open_source({.globs = {folder_.path("a.jsonl")},
                        .format = format,
                        .tokenizer = [made = tokenizer(settings)] { return made; },
                        .cache = folder_.path("kept"),
                        .context = 64,
                        .packing = packing},
                       "data.train");
  }
  std::string refused(const std::string& lines, const nlohmann::json& settings) const {
    return refusal(Error::Kind::usage, [&] { open(lines, settings); });
  }

  Folder folder_;
  nlohmann::json plain_{{"chat_template", plain_template}, {"bos_token", "^"}};
};

constexpr const char* line_of_two_turns =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "ed"},)"
    R"( {"role": "user", "content": "b"}, {"role": "assistant", "content": "ab"}]})"
    "\n";

TEST_F(ChatLines, LearnWhatTheAssistantSays) {
  for (const char* time : {"the first time", "from what was kept"}) {
    const auto source = open(line_of_two_turns, plain_);
    const auto encoder = source->tokenizer();
    ASSERT_EQ(source->size(), 1) << time;
    std::vector<std::int64_t> tokens, labels;
    for (const auto& [text, learned] :
         {std::pair{"^<user>a<assistant>", false}, std::pair{"ed<last>", true},
          std::pair{"<user>b<assistant>", false}, std::pair{"ab<last>", true}})
      for (const std::int64_t id : encoder->encode(text)) {
        tokens.push_back(id);
        labels.push_back(learned ? id : -100);
      }
    const batch::MicroBatch sample = fetch(*source, {0});
    EXPECT_EQ(values(sample.inputs), std::vector(tokens.begin(), tokens.end() - 1));
    EXPECT_EQ(values(sample.targets), std::vector(labels.begin() + 1, labels.end()));
    EXPECT_THAT(source->fingerprint(),
                AllOf(::testing::StartsWith("chat, tokenizer "), HasSubstr(", template ")));
  }
}

TEST_F(ChatLines, AreSeveralSamplesWhereATurnIsShownDifferentlyLater) {
  nlohmann::json settings = plain_;
  settings["chat_template"] = forgetting_template;
  for (const char* time : {"the first time", "from what was kept"}) {
    const auto source = open(line_of_two_turns, settings);
    ASSERT_EQ(source->size(), 2) << time;
    const auto text = [&](std::int64_t index) {
      const batch::MicroBatch sample = fetch(*source, {index});
      std::vector<std::int64_t> ids = values(sample.inputs);
      ids.push_back(values(sample.targets).back());
      return source->tokenizer()->decode(ids);
    };
    EXPECT_THAT(text(0), HasSubstr("<user>a<assistant>abed"));
    EXPECT_THAT(text(1), HasSubstr("<user>a<assistant>ed<user>b<assistant>abab"));
  }
}

TEST_F(ChatLines, MayBePackedAndWeighted) {
  const std::string weighted = R"({"weight": 0.5, )" + std::string(line_of_two_turns).substr(1);
  const auto source = open(weighted + line_of_two_turns, plain_, Format::chat, true);
  const batch::MicroBatch rows = fetch(*source, {0, 1});
  EXPECT_EQ(rows.spans.size(), 2u);
  EXPECT_EQ(rows.weights.eq(0.5).sum().item<std::int64_t>(), source->tokens(0));
  EXPECT_THAT(source->fingerprint(), HasSubstr("chat, packed"));
}

TEST_F(ChatLines, AreRefusedByFileAndLine) {
  const auto second = [&](const std::string& line) {
    return refused(std::string(line_of_two_turns) + line + "\n", plain_);
  };
  EXPECT_THAT(second(R"({"messages": [{"role": "user", "content": "a"}]})"),
              AllOf(HasSubstr("a.jsonl:2"), HasSubstr("assistant")));
  EXPECT_THAT(second(R"({"text": "a"})"), AllOf(HasSubstr("a.jsonl:2"), HasSubstr("\"messages\"")));
  EXPECT_THAT(second(R"({"messages": "a"})"), HasSubstr("a.jsonl:2"));
  EXPECT_THAT(second("{"), HasSubstr("a.jsonl:2"));
  EXPECT_THAT(second(R"({"weight": -1, "messages": []})"), HasSubstr("weight"));
  nlohmann::json raising = plain_;
  raising["chat_template"] = "{{ raise_exception('roles must alternate') }}";
  EXPECT_THAT(refused(line_of_two_turns, raising), HasSubstr("roles must alternate"));
}

TEST_F(ChatLines, NeedATemplate) {
  EXPECT_THAT(refused(line_of_two_turns, {{"bos_token", "^"}}), HasSubstr("chat_template.jinja"));
  nlohmann::json unknown = plain_;
  unknown["chat_template"] = "{{ messages | frobnicate }}";
  EXPECT_THAT(refused(line_of_two_turns, unknown), HasSubstr("frobnicate"));
  folder_.write("t/chat_template.jinja", plain_template);
  EXPECT_EQ(open(line_of_two_turns, {{"bos_token", "^"}})->size(), 1)
      << "the file beside the tokenizer";
  folder_.write("a.jsonl", line_of_two_turns);
  EXPECT_THAT(
      refusal(
          Error::Kind::usage,
          [&] { open_source({.globs = {folder_.path("a.jsonl")}, .context = 64}, "data.train"); }),
      HasSubstr("a tokenizer with a chat template"));
}

TEST_F(ChatLines, TakeTheTemplateThatIsNamedDefault) {
  nlohmann::json settings = plain_;
  settings["chat_template"] = {{{"name", "tool_use"}, {"template", "{{ raise_exception('no') }}"}},
                               {{"name", "default"}, {"template", plain_template}}};
  EXPECT_EQ(open(line_of_two_turns, settings)->size(), 1);
}

}  // namespace
}  // namespace accrue::data
