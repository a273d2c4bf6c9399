#pragma once

#include <optional>
#include <string>

#include "accrue/models/gguf.h"
#include "models/files/gguf/container/gguf_file.h"
#include "models/files/gguf/container/gguf_writer.h"

namespace accrue::models {

/// The tokenizer in `file`, by the contract of read_gguf_tokenizer().
std::optional<GgufTokenizer> tokenizer_of(const GgufFile& file);

/// Adds the keys of a tokenizer, with as many tokens as a model of `vocab` has: those that the
/// tokenizer does not have are unused. Without `tokens` the keys state that the file has none.
/// Throws a usage Error of an operation that begins with `operation` if llama.cpp would make other
/// ids from some text (GgufTokens::nearest) or the tokenizer has more tokens.
GgufDifferences add_tokenizer_keys(const std::optional<GgufTokens>& tokens, std::int64_t vocab,
                                   const std::string& operation, GgufKeyWriter& keys);

}  // namespace accrue::models
