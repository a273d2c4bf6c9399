#pragma once

#include <string>

#include "accrue/data/tokenizer.h"
#include "data/files/file_pool.h"

namespace accrue::data {

/// Whether lines of JSON hold conversations, by the first line of the first file that has one, if
/// data.format does not state it: "messages" or "conversations", or, if the tokenizer has a chat
/// template, Alpaca's fields. `as_pairs`: whether answers are lists of messages. Throws a usage
/// Error of the operation `what` if the line or the template cannot be read.
bool holds_conversations(const FilePool& files, bool as_pairs, const Tokenizer* tokenizer,
                         const std::string& what);

}  // namespace accrue::data
