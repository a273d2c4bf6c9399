#pragma once

#include <nlohmann/json_fwd.hpp>

#include "data/chat/chat_variables.h"

namespace accrue::data {

/// What a template sees besides the messages of a line: what `setting` has, the line's "tools" (a
/// list, also as a text of JSON), and what TRL gives it of a line as "chat_template_kwargs". Throws
/// a usage Error if one of them is something else.
ChatSetting setting_of_line(const ChatSetting& setting, const nlohmann::ordered_json& line);

}  // namespace accrue::data
