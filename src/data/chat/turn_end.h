#pragma once

#include <cstdint>
#include <optional>

#include "accrue/data/tokenizer.h"
#include "data/chat/chat_format.h"

namespace accrue::data {

/// The token that ends what the assistant says: the first special one that the template writes
/// behind its words, when nothing but white space is between the two. None when the template writes
/// no such token, or renders no conversation of a question and an answer.
std::optional<std::int64_t> turn_end(const ChatFormat& format, const Tokenizer& tokenizer);

}  // namespace accrue::data
