#pragma once

#include "data/json/json_part.h"
#include "data/tokenizer/pipeline/bpe.h"

namespace accrue::data {

struct ReadBpe {
  BpeParts parts;
  std::vector<std::string> texts;  ///< by id, in the form of the file; empty if not a token
};

/// "model" of a tokenizer.json, which has to be BPE. Throws a usage Error of `model`'s operation
/// if ids are not 0 to n - 1 once each except for gaps, or a merge names a text that is not a
/// token.
ReadBpe read_bpe(const JsonPart& model, bool of_bytes);

/// Reports that two tokens have the same id.
[[noreturn]] void refuse_shared_id(const std::string& what, TokenId id, const std::string& first,
                                   const std::string& second);

}  // namespace accrue::data
