#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace accrue::models {

/// How text is cut into words before byte-level BPE, by the names of "tokenizer.ggml.pre".
struct GgufPreTokenizer {
  nlohmann::ordered_json pre_tokenizer;  ///< of a tokenizer.json
  nlohmann::ordered_json normalizer;     ///< null: none
  bool ignores_merges = false;           ///< a word that is a token is that token
  bool begins_text = false;              ///< a text begins with the BOS token where no key says it
};

/// None for a name that this version does not know.
std::optional<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name);

/// "llama-bpe, qwen2, ...".
std::string listed_gguf_pre_tokenizers();

/// The name of what a tokenizer.json cuts text by; none where no name means that. What is not
/// about cutting (offsets) does not count.
std::optional<std::string> name_of_pre_tokenizer(const nlohmann::ordered_json& pre_tokenizer);

}  // namespace accrue::models
