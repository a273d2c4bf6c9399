#pragma once

#include <cstdint>
#include <optional>

#include "accrue/data/tokenizer.h"
#include "data/chat/format/chat_format.h"

namespace accrue::data {

/// The token that ends the assistant's words: the first special one that the template writes after
/// them, if there is only white space between the two. None if the template writes no such token,
/// or cannot render a conversation of a question and an answer.
std::optional<std::int64_t> turn_end(const ChatFormat& format, const Tokenizer& tokenizer);

}  // namespace accrue::data
