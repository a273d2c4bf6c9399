// Lines in the forms of other tools: Alpaca's, ShareGPT's.
#include "data/chat/lines/foreign_line.h"

#include <gmock/gmock.h>

#include "data/folder.h"
#include "data/json/large_integer.h"
#include "data/json/line_json.h"
#include "data/planted_tokenizers.h"
#include "data/refusal.h"

namespace accrue::data {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// The line made from one, or what its error received.
std::string made_of_line(const std::string& line) {
  LineJson read = read_line_json(line);
  EXPECT_FALSE(read.problem) << line;
  const ForeignLine made = with_messages(std::move(read.value));
  return made.problem ? "refused: " + made.problem->received : made.line.dump();
}

std::string sharegpt_of(const std::string& list, const std::string& besides = "") {
  return R"({"conversations": [)" + list + "]" + besides + "}";
}

std::string line_of_messages(const std::string& list, const std::string& besides = "") {
  return R"({"messages":[)" + list + "]" + besides + "}";
}

TEST(ForeignLine, RolesOfShareGptAreThoseOfMessages) {
  const std::pair<const char*, const char*> names[] = {
      {"human", "user"},    {"user", "user"}, {"gpt", "assistant"},   {"assistant", "assistant"},
      {"system", "system"}, {"tool", "tool"}, {"observation", "tool"}};
  for (const auto& [from, role] : names)
    EXPECT_EQ(
        made_of_line(sharegpt_of(R"({"from": ")" + std::string(from) + R"(", "value": "a"})")),
        line_of_messages(R"({"role":")" + std::string(role) + R"(","content":"a"})"));
  for (const char* from : {"bing", "Human", "function", "model", "", "bot"})
    EXPECT_EQ(
        made_of_line(sharegpt_of(R"({"from": ")" + std::string(from) + R"(", "value": "a"})")),
        "refused: \"" + std::string(from) + '"');
}

TEST(ForeignLine, MessagesOfShareGptKeepWhatElseTheyHave) {
  EXPECT_EQ(
      made_of_line(
          sharegpt_of(R"({"value": "a", "weight": 0, "from": "gpt", "id": 123456789012345678})")),
      line_of_messages(R"({"role":"assistant","content":"a","weight":0,"id":123456789012345678})"));
  EXPECT_EQ(made_of_line(
                sharegpt_of(R"({"role": "user", "content": "a"}, {"from": "gpt", "value": ""})")),
            line_of_messages(R"({"role":"user","content":"a"},{"role":"assistant","content":""})"));
  EXPECT_EQ(made_of_line(sharegpt_of(R"({"role": "developer", "content": "a"})")),
            line_of_messages(R"({"role":"developer","content":"a"})"))
      << "names of roles are the template's matter";
  EXPECT_EQ(made_of_line(sharegpt_of(R"({"from": "human", "value": "a"})",
                                     R"(, "tools": [{"n": 18446744073709551615}], "id": 7)")),
            line_of_messages(R"({"role":"user","content":"a"})",
                             R"(,"tools":[{"n":18446744073709551615}],"id":7)"));
}

TEST(ForeignLine, LargeIntegersPassThrough) {
  LineJson read = read_line_json(
      R"({"conversations": [{"from": "human", "value": "a", "n": 123456789012345678901234567890}],
          "tools": [{"n": -123456789012345678901234567890}]})");
  const nlohmann::ordered_json before = read.value;
  const ForeignLine made = with_messages(std::move(read.value));
  ASSERT_FALSE(made.problem);
  EXPECT_EQ(made.line["tools"], before["tools"]);
  EXPECT_EQ(made.line["messages"][0]["n"], before["conversations"][0]["n"]);
  EXPECT_NE(made.line["tools"], read_line_json(R"([{"n": -1}])").value);
}

TEST(ForeignLine, LargeIntegersOfCallsKeepTheirDigits) {
  LineJson read = read_line_json(
      R"({"conversations": [{"from": "function_call",
          "value": "{\"name\": \"f\", \"arguments\": 123456789012345678901}"}]})");
  const ForeignLine made = with_messages(std::move(read.value));
  ASSERT_FALSE(made.problem);
  const auto& call = made.line["messages"][0]["tool_calls"][0]["function"];
  EXPECT_EQ(digits_of(call["arguments"]), "123456789012345678901");
}

TEST(ForeignLine, ASystemBesideComesFirst) {
  const std::string human = R"({"from": "human", "value": "a"})";
  EXPECT_EQ(
      made_of_line(sharegpt_of(human, R"(, "system": "Be brief.")")),
      line_of_messages(R"({"role":"system","content":"Be brief."},{"role":"user","content":"a"})"));
  for (const char* none : {"null", "\"\"", "[]"})
    EXPECT_EQ(made_of_line(sharegpt_of(human, R"(, "system": )" + std::string(none))),
              line_of_messages(R"({"role":"user","content":"a"})"));
  EXPECT_EQ(made_of_line(sharegpt_of(R"({"from": "system", "value": "s"}, )" + human,
                                     R"(, "system": "Be brief.")")),
            "refused: \"system\" beside a first message that is the system's");
  EXPECT_EQ(made_of_line(sharegpt_of(human, R"(, "system": 3)")),
            "refused: \"system\" of type number");
}

TEST(ForeignLine, CallsOfToolsAreReadFromTheirText) {
  const auto called = [](const std::string& text) {
    return made_of_line(sharegpt_of(R"({"from": "function_call", "value": )" + text + "}"));
  };
  const std::string one = R"({"type":"function","function":{"name":"f","arguments":{"x":1}}})";
  EXPECT_EQ(called(R"("{\"name\": \"f\", \"arguments\": {\"x\": 1}}")"),
            line_of_messages(R"({"role":"assistant","tool_calls":[)" + one + "]}"));
  EXPECT_EQ(called(R"("[{\"name\": \"f\", \"arguments\": {\"x\": 1}}]")"),
            line_of_messages(R"({"role":"assistant","tool_calls":[)" + one + "]}"));
  EXPECT_EQ(called("\"[]\""), line_of_messages(R"({"role":"assistant","tool_calls":[]})"));
  for (const char* text :
       {"\"f(1)\"", "\"\"", "\"3\"", R"("{\"name\": \"f\"}")", R"("{\"arguments\": {}}")",
        R"("{\"name\": 1, \"arguments\": {}}")", R"("[1]")",
        R"("{\"name\": \"f\", \"name\": \"g\", \"arguments\": {}}")"})
    EXPECT_THAT(called(text), HasSubstr("\"name\" and \"arguments\"")) << text;
  for (const char* value : {"null", "{}", "[]", "3"})
    EXPECT_THAT(called(value), HasSubstr("is no text")) << value;
}

TEST(ForeignLine, WhatIsNoShareGptIsRefused) {
  const std::pair<std::string, const char*> rows[] = {
      {sharegpt_of("3"), "a message of type number"},
      {sharegpt_of("null"), "a message of type null"},
      {sharegpt_of("\"a\""), "a message of type string"},
      {sharegpt_of("[]"), "a message of type array"},
      {sharegpt_of(R"({"value": "a"})"), "without \"from\""},
      {sharegpt_of(R"({"from": "human"})"), "without \"value\""},
      {sharegpt_of(R"({"from": "human", "role": "user", "value": "a"})"), "\"from\" and \"role\""},
      {sharegpt_of(R"({"from": "human", "content": "a", "value": "a"})"),
       "\"value\" and \"content\""},
      {sharegpt_of(R"({"from": "function_call", "value": "[]", "tool_calls": []})"),
       "beside \"tool_calls\""},
      {sharegpt_of(R"({"from": null, "value": "a"})"), "\"from\" of type null"},
      {sharegpt_of(R"({"from": 1, "value": "a"})"), "\"from\" of type number"},
      {R"({"conversations": "a"})", "\"conversations\" of type string"},
      {R"({"conversations": null})", "\"conversations\" of type null"},
      {R"({"conversations": {"from": "human", "value": "a"}})", "of type object"},
      {R"({"conversations": [], "messages": []})", "more than one of these"},
      {R"({"conversations": [], "instruction": "a", "output": "b"})", "more than one of these"},
      {R"({"messages": [], "instruction": "a", "output": "b"})", "more than one of these"}};
  for (const auto& [line, received] : rows)
    EXPECT_THAT(made_of_line(line), HasSubstr(received)) << line;
}

std::string turns_of_alpaca(const std::string& asked, const std::string& answered,
                            const std::string& before = "") {
  return line_of_messages(before + R"({"role":"user","content":")" + asked +
                          R"("},{"role":"assistant","content":")" + answered + R"("})");
}

TEST(ForeignLine, AlpacaIsAConversation) {
  const std::pair<const char*, std::string> rows[] = {
      {R"({"instruction": "Add.", "input": "2 3", "output": "5"})",
       turns_of_alpaca("Add.\\n2 3", "5")},
      {R"({"instruction": "Add.", "input": "", "output": "5"})", turns_of_alpaca("Add.", "5")},
      {R"({"instruction": "Add.", "input": null, "output": "5"})", turns_of_alpaca("Add.", "5")},
      {R"({"instruction": "", "input": "2 3", "output": "5"})", turns_of_alpaca("2 3", "5")},
      {R"({"output": "", "instruction": "Add."})", turns_of_alpaca("Add.", "")},
      {R"({"instruction": "c", "output": "d", "history": [["a", "b"]]})",
       turns_of_alpaca("c", "d",
                       R"({"role":"user","content":"a"},{"role":"assistant","content":"b"},)")},
      {R"({"instruction": "c", "output": "d", "history": [], "system": "s"})",
       turns_of_alpaca("c", "d", R"({"role":"system","content":"s"},)")},
      {R"({"instruction": "Add.", "output": 5})", "refused: \"output\" of type number"},
      {R"({"instruction": null, "output": "5"})", "refused: \"instruction\" of type null"},
      {R"({"instruction": "Add.", "input": ["2"], "output": "5"})",
       "refused: \"input\" of type array"},
      {R"({"instruction": "c", "output": "d", "history": "a"})",
       "refused: \"history\" of type string"},
      {R"({"instruction": "c", "output": "d", "history": [["a"]]})",
       "refused: \"history\" with an element that is no pair of texts"},
      {R"({"instruction": "c", "output": "d", "history": [["a", 1]]})",
       "refused: \"history\" with an element that is no pair of texts"}};
  for (const auto& [line, expected] : rows) EXPECT_EQ(made_of_line(line), expected) << line;
}

TEST(ForeignLine, OtherLinesStayAsTheyAre) {
  for (const char* line : {R"({"messages":[{"from":"human","value":"a"}],"system":"s"})",
                           R"({"instruction":"a","input":"b"})", R"({"text":"a"})", "{}"})
    EXPECT_EQ(made_of_line(line), line);
}

constexpr const char* foreign_template =
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<last>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

class ForeignFiles : public ::testing::Test {
 protected:
  std::unique_ptr<Source> open(const std::string& lines, bool has_template,
                               std::optional<Format> format = {}) const {
    folder_.write("t/tokenizer.json", planted_with_id(300).dump());
    folder_.write("t/tokenizer_config.json",
                  has_template ? nlohmann::json{{"chat_template", foreign_template}}.dump() : "{}");
    const auto tokenizer = Tokenizer::open(folder_.path("t/tokenizer.json"), "data.tokenizer");
    return open_source({.globs = {folder_.write("a.jsonl", lines)},
                        .format = format,
                        .tokenizer = [tokenizer] { return tokenizer; },
                        .cache = folder_.path("kept"),
                        .context = 128},
                       "data.train");
  }
  /// The given part of the first sample, and in brackets the learned part.
  static std::string shown(const Source& source) {
    const batch::MicroBatch sample = fetch(source, {0});
    std::vector<std::int64_t> ids = values(sample.inputs), labels = values(sample.targets);
    ids.push_back(labels.back());
    labels.insert(labels.begin(), -100);
    std::string text;
    for (std::size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
      const bool is_learned = labels[begin] != -100;
      while (end < ids.size() && (labels[end] != -100) == is_learned) ++end;
      const std::string part =
          source.tokenizer()->decode(std::span(ids).subspan(begin, end - begin));
      text += is_learned ? "[" + part + "]" : part;
    }
    return text;
  }

  Folder folder_;
};

constexpr const char* alpaca_line = R"({"instruction": "a", "input": "b", "output": "ed", "id": 1})"
                                    "\n";
constexpr const char* sharegpt_line =
    R"({"id": "x", "conversations": [{"from": "human", "value": "a"},)"
    R"( {"from": "gpt", "value": "ed"}]})"
    "\n";

TEST_F(ForeignFiles, OfShareGptAreConversations) {
  for (const char* time : {"the first time", "from what was kept"}) {
    const auto source = open(sharegpt_line, true);
    EXPECT_EQ(shown(*source), "<user>a<assistant>[ed<last>]") << time;
    EXPECT_THAT(source->remarks(), AllOf(Contains(HasSubstr("read as \"messages\"")),
                                         Contains(HasSubstr("keys that are not read: \"id\""))));
  }
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(sharegpt_line, false); }),
              HasSubstr("chat_template.jinja"));
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(sharegpt_line, true, Format::jsonl); }),
              HasSubstr("data.format = \"chat\""));
}

TEST_F(ForeignFiles, OfAlpacaAreConversationsWhereTheTokenizerHasATemplate) {
  for (const char* time : {"the first time", "from what was kept"}) {
    const auto source = open(alpaca_line, true);
    EXPECT_EQ(shown(*source), "<user>a\nb<assistant>[ed<last>]") << time;
    EXPECT_THAT(source->remarks(), Contains(HasSubstr("\"output\" is what the assistant says")));
  }
  for (const bool has_template : {true, false}) {
    const auto source = open(alpaca_line, has_template,
                             has_template ? std::optional(Format::jsonl) : std::optional<Format>());
    EXPECT_EQ(shown(*source), "a\nb\n[ed]");
    EXPECT_THAT(source->remarks(), AllOf(Contains(HasSubstr("\"output\" is learned")),
                                         Contains(HasSubstr("not read: \"id\""))));
  }
}

TEST_F(ForeignFiles, AreNamedByFileAndLine) {
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [&] {
                        open(std::string(sharegpt_line) +
                                 R"({"conversations": [{"from": "bing", "value": "a"}]})",
                             true);
                      }),
              AllOf(HasSubstr("a.jsonl:2: \"bing\""), HasSubstr("observation")));
  EXPECT_THAT(
      refusal(Error::Kind::usage,
              [&] {
                open(std::string(sharegpt_line) + R"({"conversations": [], "loss_mask": [1]})",
                     true);
              }),
      AllOf(HasSubstr("a.jsonl:2"), HasSubstr("\"loss_mask\"")));
}

TEST_F(ForeignFiles, OfOwnFormHaveNoSuchRemark) {
  const auto source = open(R"({"text": "ab ab ab"})", true);
  EXPECT_THAT(source->remarks(), Not(Contains(HasSubstr("read as"))));
}

}  // namespace
}  // namespace accrue::data
