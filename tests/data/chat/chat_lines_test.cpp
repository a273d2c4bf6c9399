// Conversations as samples: their given and learned parts, and refused lines.
#include <gmock/gmock.h>

#include "data/chat/lines/chat_line.h"
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
/// Renders the reasoning of the last turn only.
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

class ReadChatLine : public ::testing::Test {
 protected:
  /// The learned text of a line in brackets, sequences on separate lines; or the received text.
  std::string read(const std::string& line) const {
    const ChatLine found = read_chat_line(line, *format_);
    if (found.problem)
      return "expected " + found.problem->expected + ", received " + found.problem->received;
    std::string shown;
    for (const ChatSequence& sequence : found.sequences) {
      if (!shown.empty()) shown += '\n';
      for (const auto& [text, is_learned] : sequence) shown += is_learned ? "[" + text + "]" : text;
    }
    return shown;
  }
  /// Two turns, with fields in the first answer and in the line.
  std::string with(const std::string& in_message, const std::string& in_line = "") const {
    return read(
        R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a")" +
        in_message +
        R"(}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}])" + in_line +
        "}");
  }
  void take_template(const std::string& source) {
    folder_.write("t/tokenizer_config.json",
                  nlohmann::json{{"chat_template", source}, {"eos_token", "<last>"}}.dump());
    const auto tokenizer = Tokenizer::open(folder_.path("t/tokenizer.json"), "data.tokenizer");
    format_ = read_chat_format(*tokenizer, "data.tokenizer");
  }
  ReadChatLine() {
    folder_.write("t/tokenizer.json", planted_with_id(300).dump());
    take_template(
        "{% if tools %}({{ tools | tojson }}){% endif %}{% for m in messages %}<{{ m.role }}>"
        "{{ m.content }}{% if 'tool_calls' in m %}{{ m.tool_calls | tojson }}{% endif %};"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  }

  Folder folder_;
  std::shared_ptr<const ChatFormat> format_;
};

constexpr const char* both_learned = "<user>q;<assistant>[a;]<user>r;<assistant>[b;]";
constexpr const char* second_learned = "<user>q;<assistant>a;<user>r;<assistant>[b;]";

TEST_F(ReadChatLine, WeightsOfMessagesSayWhatIsGivenOnly) {
  for (const char* name : {"weight", "train", "training", "loss", "trainable"}) {
    const std::string field = R"(, ")" + std::string(name) + R"(": )";
    for (const char* value : {"0", "0.0", "false", "-0.0"})
      EXPECT_EQ(with(field + value), second_learned) << name << value;
    for (const char* value : {"1", "1.0", "true", "null"})
      EXPECT_EQ(with(field + value), both_learned) << name << value;
    for (const char* value : {"0.5", "2", "-1", "\"0\"", "[]", "{}", "99999999999999999999"})
      EXPECT_THAT(with(field + value),
                  AllOf(HasSubstr("as the weight of a message"),
                        HasSubstr('"' + std::string(name) + "\" "), HasSubstr("in message 1")))
          << name << value;
    EXPECT_THAT(with(field + "0" + field + "0"), HasSubstr('"' + std::string(name) + "\" twice"));
  }
}

TEST_F(ReadChatLine, MaskedMessagesAreGivenOnly) {
  for (const char* value : {"1", "true"})
    EXPECT_EQ(with(R"(, "masked": )" + std::string(value)), second_learned) << value;
  for (const char* value : {"0", "false", "null"})
    EXPECT_EQ(with(R"(, "masked": )" + std::string(value)), both_learned) << value;
  EXPECT_EQ(with(R"(, "masked": false, "train": false)"), second_learned);
  EXPECT_THAT(with(R"(, "masked": true, "train": true)"), HasSubstr("one weight of a message"));
  EXPECT_THAT(with(R"(, "masked": "yes")"), HasSubstr("\"masked\" of type string in message 1"));
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": "q", "masked": false},
                     {"role": "assistant", "content": "a"}]})"),
            "<user>q;<assistant>[a;]");
}

TEST_F(ReadChatLine, WeightsThatCannotBeMeantAreRefused) {
  EXPECT_THAT(with(R"(, "weight": 1, "train": false)"), HasSubstr("one weight of a message"));
  EXPECT_EQ(with(R"(, "weight": 0, "train": false, "loss": null)"), second_learned);
  for (const char* name : {"train_detail", "training_detail", "loss_scale"}) {
    const std::string field = R"(, ")" + std::string(name) + R"(": )";
    EXPECT_THAT(with(field + "[]"), HasSubstr('"' + std::string(name) + "\" in message 1"));
    EXPECT_EQ(with(field + "null"), both_learned);
  }
  const auto of_user = [&](const std::string& weight) {
    return read(R"({"messages": [{"role": "user", "content": "q", "train": )" + weight +
                R"(}, {"role": "assistant", "content": "a"}]})");
  };
  EXPECT_EQ(of_user("false"), "<user>q;<assistant>[a;]");
  EXPECT_THAT(of_user("true"), HasSubstr("messages of the assistant to be learned"));
}

TEST_F(ReadChatLine, NothingIsLearnedOfAConversationThatIsGivenOnly) {
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": "q"},
                     {"role": "assistant", "content": "a", "weight": 0}]})"),
            "<user>q;<assistant>a;");
}

TEST_F(ReadChatLine, WeightsCountBesideGenerationBlocks) {
  take_template(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}");
  EXPECT_EQ(with(""), "<user>q;<assistant>[a];<user>r;<assistant>[b];");
  EXPECT_EQ(with(R"(, "train": false)"), "<user>q;<assistant>a;<user>r;<assistant>[b];");
  take_template(
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
      "{{ loop.length }}{% endgeneration %}{% endif %}{% endfor %}");
  EXPECT_THAT(with(R"(, "train": false)"), HasSubstr("blocks of a message"));
}

TEST_F(ReadChatLine, ToolsAreAListAlsoAsText) {
  const std::string tool = R"({"type": "function", "function": {"name": "f"}})";
  const std::string text = R"({\"type\": \"function\", \"function\": {\"name\": \"f\"}})";
  const std::string shown = "([" + tool + "])" + both_learned;
  const auto tools = [&](const std::string& stated) { return with("", R"(, "tools": )" + stated); };
  EXPECT_EQ(tools("[" + tool + "]"), shown);
  EXPECT_EQ(tools("\"[" + text + "]\""), shown);
  for (const char* none : {"null", "[]", "\"[]\"", "\"null\"", "\" [ ] \""})
    EXPECT_EQ(tools(none), both_learned) << none;
  for (const std::string& other :
       {tool, '"' + text + '"', std::string("3"), std::string("true"), std::string("\"\""),
        std::string("\"f\""), std::string("\"3\""), "[\"" + text + "\"]", std::string("[[]]"),
        std::string("[null]"), std::string("\"[1]\""), std::string("\"[\""), "[" + tool + ", 1]",
        std::string("{}")})
    EXPECT_THAT(tools(other), ::testing::StartsWith("expected a list of tools, received "))
        << other;
  EXPECT_THAT(tools("[]" + std::string(R"(, "tools": [])")), HasSubstr("\"tools\" twice"));
  EXPECT_THAT(tools(R"("[{\"name\": 1, \"name\": 2}]")"), HasSubstr("\"name\" twice"));
}

TEST_F(ReadChatLine, NullsInMessagesAreNotThere) {
  EXPECT_EQ(with(R"(, "tool_calls": null, "name": null, "thinking": null)"), both_learned);
  EXPECT_EQ(with(R"(, "tool_calls": [{"arguments": {"x": null}}])"),
            R"(<user>q;<assistant>[a[{"arguments": {"x": null}}];]<user>r;<assistant>[b;])")
      << "further inside they stay";
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": null},
                     {"role": "assistant", "content": "a"}]})"),
            "<user>;<assistant>[a;]");
  EXPECT_THAT(read(R"({"messages": [{"role": "user", "content": "q"}, null]})"),
              HasSubstr("a list of objects"));
}

TEST_F(ReadChatLine, IntegersKeepTheirDigits) {
  for (const char* digits : {"18446744073709551615", "9223372036854775808", "-9223372036854775809",
                             "123456789012345678901234567890", "-1267650600228229401496703205376"})
    EXPECT_THAT(with(R"(, "tool_calls": [{"id": )" + std::string(digits) + "}]"),
                HasSubstr(R"([{"id": )" + std::string(digits) + "}]"));
  EXPECT_THAT(with(R"(, "tool_calls": [1e20, 12345678901234567890.0])"),
              HasSubstr("[1e+20, 1.2345678901234567e+19]"));
}

TEST_F(ReadChatLine, KeysThatComeTwiceAreRefusedAtAnyDepth) {
  EXPECT_THAT(with(R"(, "content": "c")"), HasSubstr("\"content\" twice"));
  EXPECT_THAT(with(R"(, "role": "user")"), HasSubstr("\"role\" twice"));
  EXPECT_THAT(with(R"(, "tool_calls": [{"x": {"y": 1, "z": 2, "y": 1}}])"),
              HasSubstr("\"y\" twice"));
  EXPECT_THAT(with("", R"(, "weight": 1, "weight": 1)"), HasSubstr("\"weight\" twice"));
  EXPECT_THAT(with("", R"(, "other": [[{"k": 1, "k": 1}]])"), HasSubstr("\"k\" twice"));
  EXPECT_THAT(with("", R"(, "messages": [])"), HasSubstr("\"messages\" twice"));
  EXPECT_EQ(with("", R"(, "x": {"k": 1}, "y": {"k": 1})"), both_learned);
}

TEST_F(ReadChatLine, WhatIsNoLineOfAConversationIsRefused) {
  EXPECT_THAT(read("{"), HasSubstr("no JSON at byte"));
  EXPECT_THAT(read(""), HasSubstr("no JSON at byte"));
  EXPECT_THAT(read("[]"), HasSubstr("a JSON object"));
  EXPECT_THAT(read(R"({"messages": []})"), HasSubstr("no messages"));
  EXPECT_THAT(read(R"({"messages": null})"), HasSubstr("a list of objects"));
  EXPECT_THAT(read(R"({"messages": "[]"})"), HasSubstr("received string"));
  EXPECT_THAT(read(R"({"messages": {"role": "user"}})"), HasSubstr("a list of objects"));
  EXPECT_THAT(read(R"({"text": "a"})"), HasSubstr("\"messages\""));
  EXPECT_THAT(with("", R"(, "weight": 1e999)"), HasSubstr("a float has no room for"));
  const std::string deep(300, '[');
  EXPECT_THAT(with("", R"(, "x": )" + deep), HasSubstr("nested at most"));
}

TEST_F(ReadChatLine, VariablesOfTheTemplateMayBeTheLines) {
  take_template(
      "{{ style }}{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  EXPECT_EQ(with("", R"(, "chat_template_kwargs": {"style": "x"})"),
            "x" + std::string(both_learned));
  EXPECT_EQ(with("", R"(, "chat_template_kwargs": null)"), both_learned);
  EXPECT_THAT(with("", R"(, "chat_template_kwargs": [])"), HasSubstr("chat_template_kwargs"));
  EXPECT_THAT(with("", R"(, "chat_template_kwargs": {"tools": []})"), HasSubstr("\"tools\""));
}

TEST_F(ReadChatLine, CompletionsMayBeMessages) {
  const auto completed = [&](const std::string& prompt, const std::string& completion) {
    return read(R"({"prompt": )" + prompt + R"(, "completion": [)" + completion + "]}");
  };
  const std::string asks = R"({"role": "user", "content": "q"})";
  const std::string says = R"({"role": "assistant", "content": "a"})";
  const auto json_of = [](const char* line) { return nlohmann::ordered_json::parse(line); };
  EXPECT_EQ(completed("[" + asks + "]", says), "<user>q;<assistant>[a;]");
  EXPECT_EQ(completed("\"q\"", says), "<user>q;<assistant>[a;]");
  EXPECT_EQ(completed("\" q\\n\"", asks + ", " + says), "<user>q;<assistant>[a;]");
  EXPECT_EQ(completed("[" + asks + ", " + says + ", " + asks + "]", says),
            "<user>q;<assistant>a;<user>q;<assistant>[a;]");
  EXPECT_THAT(completed("\"other\"", asks + ", " + says), HasSubstr("none of the given messages"));
  EXPECT_THAT(completed("3", says), HasSubstr("of type number"));
  EXPECT_THAT(completed("[" + asks + "]", asks), HasSubstr("assistant"));
  EXPECT_TRUE(is_chat_line(json_of(R"({"prompt": "q", "completion": []})")));
  EXPECT_FALSE(is_chat_line(json_of(R"({"prompt": "q", "completion": "a"})")));
}

/// special_tokens_map.json has another text for a name than tokenizer_config.json: its own counts.
TEST_F(ChatLines, SeeEachSpecialTokenOnce) {
  folder_.write("t/special_tokens_map.json", R"({"extra_special_tokens": {"bos_token": "<y>"}})");
  const auto opened = tokenizer(nlohmann::json::parse(
      R"({"add_bos_token": true, "eos_token": {"content": "<e>"}, "image_token": "<i>",
          "extra_special_tokens": {"bos_token": "<x>", "video": "<v>"}})"));
  const std::vector<std::pair<std::string, std::string>> expected{
      {"eos_token", "<e>"}, {"image_token", "<i>"}, {"bos_token", "<y>"}, {"video", "<v>"}};
  EXPECT_EQ(opened->special_texts(), expected);
}

TEST_F(ChatLines, OfWeightNoughtAreTokensThatAreGiven) {
  const auto source = open(
      R"({"messages": [{"role": "user", "content": "a"},)"
      R"( {"role": "assistant", "content": "ed", "weight": 0}, {"role": "user", "content": "b"},)"
      R"( {"role": "assistant", "content": "ab"}]})",
      plain_);
  const batch::MicroBatch sample = fetch(*source, {0});
  EXPECT_EQ(source->tokenizer()->decode(values(sample.inputs)),
            "^<user>a<assistant>ed<last><user>b<assistant>ab");
  std::vector<std::int64_t> learned;
  for (const std::int64_t id : values(sample.targets))
    if (id != -100) learned.push_back(id);
  EXPECT_EQ(source->tokenizer()->decode(learned), "ab<last>");
}

}  // namespace
}  // namespace accrue::data
