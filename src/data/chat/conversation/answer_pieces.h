#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "data/chat/conversation/learned_pieces.h"

namespace accrue::data {

/// The text of a conversation by pieces. The assistant's words after the first `given` messages are
/// learned, as far as the whole conversation shows them unchanged (learned_sequences()). Throws a
/// usage Error as that does, if nothing after the given messages is learned, and if the template
/// renders the given ones differently in the whole conversation.
ChatSequence answer_pieces(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                           std::size_t given, const ChatSetting& setting);

}  // namespace accrue::data
