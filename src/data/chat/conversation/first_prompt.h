#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "accrue/core/error.h"
#include "data/chat/conversation/chat_variables.h"

namespace accrue::data {

/// The prompt of a message of the assistant that begins the conversation; `said` is the text of
/// this message alone. Templates read the first message, so none is rendered without messages. The
/// text that a template writes for add_generation_prompt after a question ends the prompt, if it
/// precedes the words of the answer. If a template writes nothing for it, the prompt is the text
/// before the message: the rest of `said` without what the message adds when it comes twice, or
/// else the text with which a question begins as well.
///
/// Throws a usage Error if the template opens this answer differently than it prompts for one.
std::string first_prompt(const ChatTemplate& chat, const nlohmann::ordered_json& message,
                         const std::string& said, const ChatSetting& setting);

/// The Error for a template that opens the answer `index` differently than after `prompt`.
Error opened_otherwise(const ChatTemplate& chat, std::size_t index, std::string_view prompt);

}  // namespace accrue::data
