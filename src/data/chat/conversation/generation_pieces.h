#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "data/chat/conversation/chat_variables.h"

namespace accrue::data {

/// A text by pieces, of which the model's words are learned.
using ChatSequence = std::vector<ChatTemplate::Piece>;

/// The text of a conversation, for a template with {% generation %} blocks: their contents are
/// learned, except in messages that are `withheld`. The conversation up to a message shows which
/// blocks are its own; throws a usage Error if the whole one has others.
ChatSequence generation_pieces(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                               const ChatSetting& setting, const std::vector<bool>& withheld);

}  // namespace accrue::data
