#pragma once

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/json_part.h"

namespace accrue::data {

struct ReadBpe {
  BpeParts parts;
  std::vector<std::string> texts;  ///< of each id, as the file shows them; empty if it is none
};

/// "model" of a tokenizer.json, which has to be BPE. Throws a usage Error, its operation being that
/// of `model`, where ids are not 0 to n - 1 once each but for gaps, or a merge names what is no
/// token.
ReadBpe read_bpe(const JsonPart& model, bool of_bytes);

/// Says that two tokens have one id.
[[noreturn]] void refuse_shared_id(const std::string& what, TokenId id, const std::string& first,
                                   const std::string& second);

}  // namespace accrue::data
