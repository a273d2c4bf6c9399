#include "data/chat/conversation/answered_conversation.h"

#include <string>
#include <string_view>
#include <utility>

#include "accrue/core/error.h"
#include "data/chat/conversation/chat_variables.h"

namespace accrue::data {
namespace {

using AnswerJson = nlohmann::ordered_json;

[[noreturn]] void refuse_prompt(const std::string& received) {
  throw usage_error("read a conversation",
                    "\"prompt\" as messages, or as a text that the user says before the answer",
                    received,
                    "leaving \"prompt\" out where the answers begin with its messages, or messages "
                    "of the assistant alone as answers");
}

std::string_view without_space(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

bool says(const AnswerJson& message, std::string_view text) {
  const auto content = message.find("content");
  return content != message.end() && content->is_string() &&
         without_space(content->get_ref<const std::string&>()) == without_space(text);
}

AnsweredConversation before_answer(AnswerJson messages, const AnswerJson& answer) {
  const std::size_t given = messages.size();
  for (const AnswerJson& message : answer) messages.push_back(message);
  return {.messages = std::move(messages), .given = given};
}

AnsweredConversation of_text(const std::string& prompt, const AnswerJson& answer,
                             std::size_t shared) {
  if (!answer.empty() && is_of_assistant(answer[0]))
    return before_answer(AnswerJson::array({chat_message("user", prompt)}), answer);
  for (std::size_t i = 0; i < shared; ++i)
    if (says(answer[i], prompt)) return {.messages = answer, .given = shared};
  refuse_prompt("a text that none of the given messages says");
}

}  // namespace

AnsweredConversation answered_conversation(const AnswerJson& prompt, const AnswerJson& answer,
                                           std::size_t shared) {
  if (prompt.is_array()) return before_answer(prompt, answer);
  const bool says_nothing = prompt.is_null() || (prompt.is_string() && prompt == "");
  if (says_nothing) return {.messages = answer, .given = shared};
  if (!prompt.is_string()) refuse_prompt("a value of type " + std::string(prompt.type_name()));
  return of_text(prompt.get_ref<const std::string&>(), answer, shared);
}

}  // namespace accrue::data
