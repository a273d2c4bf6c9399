#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "accrue/core/error.h"
#include "data/chat/chat_variables.h"

namespace accrue::data {

/// The text that a model is given before a message of the assistant that begins the conversation,
/// `said` being the text of this message by itself. Templates look at the first message, so none is
/// rendered without messages. What a template writes for add_generation_prompt behind a question
/// ends the prompt, if the text has it before the words of the answer. A template that writes
/// nothing for it gives what stands before the message: what is left of `said` without what the
/// message adds when it comes twice, or else what a question begins with, too.
///
/// Throws a usage Error if the template opens this answer otherwise than it asks for one.
std::string first_prompt(const ChatTemplate& chat, const nlohmann::ordered_json& message,
                         const std::string& said, const ChatSetting& setting);

/// The Error of a template that opens the answer `index` otherwise than behind `prompt`.
Error opened_otherwise(const ChatTemplate& chat, std::size_t index, std::string_view prompt);

}  // namespace accrue::data
