#pragma once

#include <nlohmann/json_fwd.hpp>

#include "data/chat/conversation/chat_variables.h"

namespace accrue::data {

/// A template's variables for a line besides its messages: those of `setting`, the line's "tools"
/// (a list, also as JSON text), and TRL's "chat_template_kwargs" of the line. Throws a usage Error
/// if one of them has another form.
ChatSetting setting_of_line(const ChatSetting& setting, const nlohmann::ordered_json& line);

}  // namespace accrue::data
