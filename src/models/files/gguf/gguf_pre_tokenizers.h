#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::models {

/// How text is cut into words before byte-level BPE, by the names of "tokenizer.ggml.pre".
struct GgufPreTokenizer {
  std::string_view name;
  nlohmann::json pre_tokenizer;  ///< of a tokenizer.json; llama.cpp has no normalizer beside it
  bool ignores_merges = false;   ///< a word that is a token is that token
  bool begins_text = false;      ///< a text begins with the BOS token if no key says it
  /// Which words llama.cpp cuts otherwise than `pre_tokenizer`; empty: none.
  std::string_view other_words = {};
};

/// None for a name that this version does not know.
std::optional<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name);

/// "llama-bpe, dbrx, ...": the usual names alone.
std::string listed_gguf_pre_tokenizers();

/// Those under the usual names that cut text as a part of a tokenizer.json does. What is not about
/// cutting (offsets) does not count.
std::vector<GgufPreTokenizer> gguf_pre_tokenizers_like(const nlohmann::json& pre_tokenizer);

/// Whether a part of a tokenizer.json does nothing with text but cut it into words of bytes.
bool only_cuts_bytes(const nlohmann::json& pre_tokenizer);

}  // namespace accrue::models
