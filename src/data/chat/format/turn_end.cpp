#include "data/chat/format/turn_end.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "accrue/core/error.h"
#include "core/utf8.h"
#include "data/chat/template/values/python_text.h"

namespace accrue::data {
namespace {

using TurnJson = nlohmann::ordered_json;

constexpr std::string_view kAnswer = "accrue";

/// A question and an answer as rendered by the template; none if it refuses them.
std::optional<std::string> rendered_answer(const ChatFormat& format) {
  const TurnJson messages =
      TurnJson::array({chat_message("user", "a"), chat_message("assistant", kAnswer)});
  try {
    const ChatTemplate chat = format.templates->for_tools(nullptr);
    return text_of_messages(chat, messages, messages.size(), format.setting,
                            /*add_generation_prompt=*/false);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The template's text after the answer, up to the longest possible end of a turn.
std::string behind_answer(const std::string& text) {
  constexpr std::size_t most = 4096;  // a template is a foreign file, and may go on for long
  const std::size_t found = text.rfind(kAnswer);
  if (found == text.npos) return {};
  std::string behind = text.substr(found + kAnswer.size(), most);
  behind.resize(valid_utf8_prefix(behind));
  return behind;
}

}  // namespace

std::optional<std::int64_t> turn_end(const ChatFormat& format, const Tokenizer& tokenizer) {
  const std::optional<std::string> text = rendered_answer(format);
  if (!text) return std::nullopt;
  for (const std::int64_t id : tokenizer.encode(behind_answer(*text))) {
    const std::string whole = tokenizer.decode({&id, 1});
    if (!whole.empty() && tokenizer.decode({&id, 1}, /*skip_special=*/true).empty()) return id;
    if (!whole.empty() && !jinja::is_white_space(whole)) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace accrue::data
