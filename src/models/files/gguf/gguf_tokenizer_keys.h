#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accrue/models/llama_gguf.h"
#include "models/files/gguf/gguf_file.h"
#include "models/files/gguf/gguf_writer.h"

namespace accrue::models {

/// The tokenizer in `file`, by the contract of read_gguf_tokenizer().
std::optional<GgufTokenizer> tokenizer_of(const GgufFile& file);

/// Adds the keys of a tokenizer.json, of as many tokens as a model of `vocab` has: those that the
/// tokenizer has not are unused ones. Throws a usage Error, its operation being `operation`, where
/// it is none that llama.cpp knows or has more tokens.
void add_tokenizer_keys(const std::filesystem::path& tokenizer, std::int64_t vocab,
                        const std::string& operation, GgufKeyWriter& keys);

/// Adds the keys of a model without tokens.
void add_no_tokenizer_keys(GgufKeyWriter& keys);

}  // namespace accrue::models
