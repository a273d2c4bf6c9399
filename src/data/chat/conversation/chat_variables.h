#pragma once

#include <cstddef>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "data/chat/template/chat_template.h"

namespace accrue::data {

/// A template's variables besides the messages.
struct ChatSetting {
  nlohmann::ordered_json tools;  ///< a list, or null
  nlohmann::ordered_json variables =
      nlohmann::ordered_json::object();  ///< bos_token, eos_token, ...
  std::tm now{};                         ///< the time for strftime_now
};

/// The messages as transformers passes them to a template (5.x, apply_chat_template() and
/// render_jinja_template()): keys of a message that are null are left out, documents are null, and
/// a message's reasoning, whichever key it has, is given as reasoning_content and thinking. Throws
/// a usage Error if the messages are not a list of objects.
nlohmann::ordered_json chat_variables(const ChatTemplate& chat,
                                      const nlohmann::ordered_json& messages,
                                      const ChatSetting& setting, bool add_generation_prompt);

/// A message in the form for templates: an object with "role" and "content".
nlohmann::ordered_json chat_message(std::string_view role, nlohmann::ordered_json content);

/// The list of the first `count` messages.
nlohmann::ordered_json first_messages(const nlohmann::ordered_json& messages, std::size_t count);

/// The text of the first `count` messages.
std::string text_of_messages(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                             std::size_t count, const ChatSetting& setting,
                             bool add_generation_prompt);

/// Throws a usage Error if the messages are not a list of objects.
void check_messages(const ChatTemplate& chat, const nlohmann::ordered_json& messages);

/// Whether a message is the assistant's.
bool is_of_assistant(const nlohmann::ordered_json& message);

/// Messages of the kind that templates take, as shown in errors.
inline constexpr const char* list_of_messages =
    "[{\"role\": \"user\", \"content\": \"...\"}, {\"role\": \"assistant\", \"content\": \"...\"}]";

}  // namespace accrue::data
