#include "data/chat/format/turn_end.h"

#include "data/folder.h"
#include "data/planted_tokenizers.h"

namespace accrue::data {
namespace {

using namespace testing;

/// The end of a turn by a template, as text; "none" if there is none.
std::string ended_by(const std::string& chat_template) {
  const Folder folder;
  const std::string file = folder.write("tokenizer.json", planted_with_id(300).dump());
  folder.write("tokenizer_config.json", nlohmann::json{{"chat_template", chat_template}}.dump());
  const auto tokenizer = Tokenizer::open(file, "chat");
  const auto end = turn_end(*read_chat_format(*tokenizer, "chat"), *tokenizer);
  return end ? tokenizer->decode({&*end, 1}) : "none";
}

std::string turns_with(const std::string& turn) {
  return "{% for m in messages %}" + turn + "{% endfor %}";
}

TEST(TurnEnd, IsTheSpecialTokenBehindAnAnswer) {
  for (const char* turn :
       {"{{ m.content }}<last>", "{{ m.role }}:{{ m.content }}<last>\nmore",
        "{{ m.content }} <last>", "{{ m.content }}\n<last><last>",
        "{{ m.content }}{% if m.role == 'assistant' and loop.last %}\n\n<last>{% endif %}"})
    EXPECT_EQ(ended_by(turns_with(turn)), "<last>") << turn;
}

TEST(TurnEnd, IsNoneWhereTheTemplateWritesNone) {
  for (const char* turn :
       {"{{ m.content }}\n", "{{ m.content }}", "{{ m.content }} end<last>",
        "<last>{{ m.content }}", "{{ m.content }}{% if m.role == 'user' %}<last>{% endif %}",
        "<last>", "{{ raise_exception('no') }}"})
    EXPECT_EQ(ended_by(turns_with(turn)), "none") << turn;
}

TEST(TurnEnd, IsLookedForNearTheAnswer) {
  const std::string far(5000, ' ');
  EXPECT_EQ(ended_by(turns_with("{{ m.content }}" + far + "<last>")), "none");
  EXPECT_EQ(ended_by(turns_with("{{ m.content }}<last>" + far)), "<last>");
}

}  // namespace
}  // namespace accrue::data
