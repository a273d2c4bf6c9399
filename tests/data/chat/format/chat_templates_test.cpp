// Which chat templates a tokenizer has, by the files that contain them, and which of them a
// conversation uses.
#include "data/chat/format/chat_templates.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "data/chat/format/template_choice.h"
#include "data/folder.h"
#include "data/refusal.h"

namespace accrue::data {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Templates = nlohmann::ordered_json;

class ChatTemplateFiles : public ::testing::Test {
 protected:
  void state(const Templates& chat_template) const {
    folder_.write("tokenizer_config.json", Templates{{"chat_template", chat_template}}.dump());
  }
  std::map<std::string, std::string> read() const {
    return read_chat_templates(folder_.path("tokenizer.json"), "data.tokenizer").texts;
  }
  std::string refused() const {
    return refusal(Error::Kind::usage, [&] { read(); });
  }

  Folder folder_;
  const Templates named_ = Templates::array({Templates{{"name", "default"}, {"template", "D"}},
                                             Templates{{"name", "tool_use"}, {"template", "T"}}});
};

TEST_F(ChatTemplateFiles, StateATextOrSeveralByName) {
  EXPECT_THAT(read(), IsEmpty());
  state("D");
  EXPECT_THAT(read(), ElementsAre(Pair("default", "D")));
  state(named_);
  EXPECT_THAT(read(), ElementsAre(Pair("default", "D"), Pair("tool_use", "T")));
  state({{"tool_use", "T"}, {"rag", "R"}});
  EXPECT_THAT(read(), ElementsAre(Pair("rag", "R"), Pair("tool_use", "T")));
  Templates twice = named_;
  twice.push_back({{"name", "default"}, {"template", "last"}});
  state(twice);
  EXPECT_THAT(read(), ElementsAre(Pair("default", "last"), Pair("tool_use", "T")));
  for (const Templates& none : {Templates(), Templates::array(), Templates::object()}) {
    state(none);
    EXPECT_THAT(read(), IsEmpty()) << none;
  }
}

TEST_F(ChatTemplateFiles, BeatWhatTheSettingsState) {
  state(named_);
  folder_.write("chat_template.jinja", "J");
  EXPECT_THAT(read(), ElementsAre(Pair("default", "J")));
  folder_.write("additional_chat_templates/tool_use.jinja", "A");
  folder_.write("additional_chat_templates/a.b.jinja", "B");
  folder_.write("additional_chat_templates/notes.txt", "no template");
  folder_.write("additional_chat_templates/folder.jinja/x", "no template");
  EXPECT_THAT(read(), ElementsAre(Pair("a.b", "B"), Pair("default", "J"), Pair("tool_use", "A")));
}

TEST_F(ChatTemplateFiles, OfAdditionalTemplatesAloneHaveNoDefault) {
  state("D");
  folder_.write("additional_chat_templates/tool_use.jinja", "A");
  EXPECT_THAT(read(), ElementsAre(Pair("tool_use", "A")));
  folder_.write("additional_chat_templates/default.jinja", "B");
  EXPECT_THAT(read(), ElementsAre(Pair("default", "B"), Pair("tool_use", "A")));
}

TEST_F(ChatTemplateFiles, OfAProcessorCountLast) {
  folder_.write("chat_template.json", R"({"chat_template": "P"})");
  EXPECT_THAT(read(), ElementsAre(Pair("default", "P")));
  state(nullptr);
  EXPECT_THAT(read(), ElementsAre(Pair("default", "P")));
  state("D");
  EXPECT_THAT(read(), ElementsAre(Pair("default", "D")));
}

TEST_F(ChatTemplateFiles, OfAnotherFormAreRefusedByName) {
  for (const Templates& other :
       {Templates(3), Templates(true), Templates::array({"D"}), Templates::array({3}),
        Templates::array({Templates{{"name", "default"}}}),
        Templates::array({Templates{{"template", "D"}}}),
        Templates::array({Templates{{"name", "default"}, {"template", nullptr}}}),
        Templates{{"default", 3}}}) {
    state(other);
    EXPECT_THAT(refused(), AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("chat_template")))
        << other;
  }
  folder_.write("tokenizer_config.json", "{}");
  for (const char* other : {"", "{", "[]", "{}", R"("D")", R"({"chat_template": 3})"}) {
    folder_.write("chat_template.json", other);
    EXPECT_THAT(refused(), HasSubstr("chat_template.json")) << other;
  }
}

std::string rendered(const ChatTemplate& chat) {
  return chat.render(Templates::object(), std::tm{});
}

const Templates no_tools;
const Templates some_tools = Templates::array({Templates::object()});

TEST(ChatTemplateChoice, GoesByTheToolsOfAConversation) {
  const TemplateChoice both({{{"default", "D"}, {"tool_use", "T"}, {"rag", "R"}}}, "what");
  EXPECT_EQ(rendered(both.for_tools(no_tools)), "D");
  EXPECT_EQ(rendered(both.for_tools(some_tools)), "T");
  EXPECT_EQ(rendered(both.for_tools(Templates::array())), "T") << "as transformers: it is a list";
  const TemplateChoice one({{{"default", "D"}}}, "what");
  EXPECT_EQ(rendered(one.for_tools(some_tools)), "D");
}

TEST(ChatTemplateChoice, NeedsADefaultWhereNoOtherIsMeant) {
  const TemplateChoice tools({{{"rag", "R"}, {"tool_use", "T"}}}, "what");
  EXPECT_EQ(rendered(tools.for_tools(some_tools)), "T");
  const auto message = [](const TemplateChoice& choice, const Templates& wanted) {
    return refusal(Error::Kind::usage, [&] { choice.for_tools(wanted); });
  };
  EXPECT_THAT(message(tools, no_tools),
              AllOf(HasSubstr("without tools"), HasSubstr("rag and tool_use")));
  const TemplateChoice other({{{"rag", "R"}}}, "what");
  EXPECT_THAT(message(other, some_tools), HasSubstr("with tools"));
}

TEST(ChatTemplateChoice, LeavesTemplatesAloneThatNobodyWants) {
  const TemplateChoice both({{{"default", "D"}, {"tool_use", "\n{{ x | frobnicate }}"}}}, "what");
  EXPECT_EQ(rendered(both.for_tools(no_tools)), "D");
  for (int time = 0; time < 2; ++time)
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { both.for_tools(some_tools); }),
                AllOf(HasSubstr("frobnicate"), HasSubstr("line 2"), HasSubstr("'tool_use'")));
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [] {
                        TemplateChoice({{{"default", "{{ x | no }}"}}}, "what");
                      }),
              HasSubstr("'no'"))
      << "a template that every conversation takes is looked at first";
}

}  // namespace
}  // namespace accrue::data
