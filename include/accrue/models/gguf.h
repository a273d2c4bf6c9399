#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/enum_words.h"
#include "accrue/models/gguf_magic.h"

namespace accrue::models {

/// The storage type of matrices in a GGUF file; norms, biases and position tables are fp32.
enum class GgufDtype { f16, q8_0, bf16, f32 };
inline constexpr auto gguf_dtype_words = enum_words<GgufDtype>({{GgufDtype::f16, "f16"},
                                                                {GgufDtype::q8_0, "q8_0"},
                                                                {GgufDtype::bf16, "bf16"},
                                                                {GgufDtype::f32, "f32"}});

/// The tokens of a model for a GGUF file.
struct GgufTokens {
  /// A tokenizer.json. Other files of the tokenizer are read from the same folder.
  std::filesystem::path tokenizer;
  /// Ids that end a text. If there are none, those that the files beside the tokenizer name.
  std::vector<std::int64_t> end_tokens = {};
  /// If llama.cpp has no tokenizer that gives the same ids for every text, writes the nearest one
  /// that it has. If false, such a tokenizer is refused.
  bool nearest = false;
};

/// The differences of llama.cpp from a model's tokenizer, as sentences without a full stop. Empty
/// unless GgufTokens::nearest is set.
using GgufDifferences = std::vector<std::string>;

/// The tokenizer of a GGUF file as files that this library and transformers read.
struct GgufTokenizer {
  std::string tokenizer;                              ///< tokenizer.json
  std::string settings;                               ///< tokenizer_config.json
  std::map<std::string, std::string> chat_templates;  ///< by name; "default" is the usual one
};

/// Reads the tokenizer in `file`; nothing if it has no tokens. Supports byte-level BPE ("gpt2")
/// with the patterns llama-bpe, qwen2, gpt-2, smollm, tekken, default and those that split text
/// alike, and SentencePiece's BPE ("llama"). Throws a usage Error that names another kind or
/// pattern, a contradiction, or scores that a tokenizer.json cannot express.
std::optional<GgufTokenizer> read_gguf_tokenizer(const std::filesystem::path& file);

/// The ids of the tokens in `file` that end a text, the usual one first; empty if it has no tokens.
/// Throws a usage Error if they are of another kind or contradictory.
std::vector<std::int64_t> read_gguf_end_tokens(const std::filesystem::path& file);

}  // namespace accrue::models
