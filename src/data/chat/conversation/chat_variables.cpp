#include "data/chat/conversation/chat_variables.h"

#include <algorithm>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

using Variables = nlohmann::ordered_json;

/// Files that other tools write have each key in each message, null if it is not set.
Variables without_nulls(const Variables& message) {
  Variables shown = Variables::object();
  auto& members = shown.get_ref<Variables::object_t&>();
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) members.emplace_back(key, value);
  return shown;
}

/// A message with its reasoning under the names by which templates read it.
Variables with_reasoning(const Variables& message) {
  for (const char* const name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end()) continue;
    Variables renamed = {{"thinking", *found}};
    for (const auto& [key, value] : message.items()) renamed[key] = value;
    renamed["reasoning_content"] = *found;
    return renamed;
  }
  return message;
}

}  // namespace

void check_messages(const ChatTemplate& chat, const Variables& messages) {
  const bool is_list =
      messages.is_array() &&
      std::ranges::all_of(messages, [](const Variables& one) { return one.is_object(); });
  if (!is_list)
    throw usage_error(chat.what(), "a list of objects as messages", messages.type_name(),
                      list_of_messages);
}

bool is_of_assistant(const Variables& message) {
  const auto role = message.find("role");
  return role != message.end() && *role == "assistant";
}

Variables chat_variables(const ChatTemplate& chat, const Variables& messages,
                         const ChatSetting& setting, bool add_generation_prompt) {
  check_messages(chat, messages);
  Variables variables = setting.variables;
  Variables& shown = variables["messages"] = Variables::array();
  for (const Variables& message : messages) shown.push_back(with_reasoning(without_nulls(message)));
  variables["tools"] = setting.tools;
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = add_generation_prompt;
  return variables;
}

Variables chat_message(std::string_view role, Variables content) {
  return {{"role", role}, {"content", std::move(content)}};
}

Variables first_messages(const Variables& messages, std::size_t count) {
  Variables first = Variables::array();
  for (std::size_t i = 0; i < count; ++i) first.push_back(messages[i]);
  return first;
}

std::string text_of_messages(const ChatTemplate& chat, const Variables& messages, std::size_t count,
                             const ChatSetting& setting, bool add_generation_prompt) {
  const Variables first = first_messages(messages, count);
  return chat.render(chat_variables(chat, first, setting, add_generation_prompt), setting.now);
}

}  // namespace accrue::data
