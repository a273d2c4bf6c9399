#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/conversation/learned_pieces.h"
#include "data/chat/format/chat_format.h"
#include "data/text/samples/json_sample.h"

namespace accrue::data {

/// The content of a line with a conversation, or the problem in it.
struct ChatLine {
  float weight = 1;
  std::vector<ChatSequence> sequences;
  LineForm form = LineForm::own;
  std::vector<std::string> unread_keys;
  std::optional<LineProblem> problem;
};

/// Reads a line with "messages", or with a "prompt" and messages as its "completion", or of another
/// tool (with_messages()); perhaps with "tools", "chat_template_kwargs" and "weight".
ChatLine read_chat_line(std::string_view text, const ChatFormat& format);

/// Whether a line is of that kind: a file of such lines holds conversations. False for a line that
/// is not JSON, and was discarded when it was parsed.
bool is_chat_line(const nlohmann::ordered_json& line);

}  // namespace accrue::data
