#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "data/chat/chat_variables.h"

namespace accrue::data {

/// A text by pieces, of which what the model has to say is learned.
using ChatSequence = std::vector<ChatTemplate::Piece>;

/// The text of a conversation by a template with {% generation %} blocks: what is in them is
/// learned, but for those of messages that are `withheld`. Which blocks are a message's shows the
/// conversation up to it; throws a usage Error if the whole one has others.
ChatSequence generation_pieces(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                               const ChatSetting& setting, const std::vector<bool>& withheld);

}  // namespace accrue::data
