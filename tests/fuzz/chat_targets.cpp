// Chat templates, rendered with a conversation that has something of everything.
#include <nlohmann/json.hpp>
#include <string>

#include "data/chat/learned_pieces.h"
#include "fuzz_targets.h"

namespace accrue::fuzz {
namespace {

nlohmann::ordered_json messages() {
  return {{{"role", "system"}, {"content", "Be brief."}},
          {{"role", "user"}, {"content", " Héllo\n"}},
          {{"role", "assistant"},
           {"content", "<think>\nso\n</think>\n\nyes"},
           {"tool_calls",
            nlohmann::ordered_json::array(
                {{{"id", "abcdefghi"},
                  {"function", {{"name", "f"}, {"arguments", {{"x", {1, 2.5, nullptr}}}}}}}})}},
          {{"role", "tool"}, {"content", "42"}, {"tool_call_id", "abcdefghi"}},
          {{"role", "assistant"}, {"content", ""}}};
}

}  // namespace

void fuzz_chat_template(Input input) {
  const std::string source(input.begin(), input.end());
  const auto chat = data::ChatTemplate::parse(source, "chat template");
  data::ChatSetting setting;
  setting.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  setting.tools = nlohmann::ordered_json::array(
      {{{"type", "function"},
        {"function", {{"name", "f"}, {"parameters", {{"type", "object"}}}}}}});
  setting.now.tm_mday = 1;
  for (const data::ChatSequence& sequence : data::learned_sequences(chat, messages(), setting)) {
    bool is_learned = false;
    for (const data::ChatTemplate::Piece& piece : sequence) {
      expect(!piece.text.empty(), "pieces have text");
      is_learned = is_learned || piece.is_learned;
    }
    expect(is_learned, "something of a sequence is learned");
  }
}

}  // namespace accrue::fuzz
