#pragma once

#include <cstdint>
#include <string>

#include "accrue/data/tokenizer.h"

namespace accrue::data {

/// An id for people, with the text of its token if `tokenizer`, which may be null, has it: id 402
/// ("<tool_call>").
std::string token_in_words(std::int64_t id, const Tokenizer* tokenizer);

}  // namespace accrue::data
