#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "data/chat/learned_pieces.h"

namespace accrue::data {

/// The text of a conversation by pieces, of which the assistant's words behind the first `given`
/// messages are learned, as far as the whole conversation shows them as they were said
/// (learned_sequences()). Throws a usage Error as that does, if nothing behind the given
/// messages is learned, and where the template shows these otherwise in the whole conversation.
ChatSequence answer_pieces(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                           std::size_t given, const ChatSetting& setting);

}  // namespace accrue::data
