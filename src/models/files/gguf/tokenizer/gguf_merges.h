#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/files/gguf/tokenizer/gguf_token_types.h"

namespace accrue::models {

/// Two tokens whose joined texts are a third token, by their ids.
struct GgufMerge {
  std::size_t left, right, whole;
};

/// All of them: llama.cpp's tokenizer of characters joins whatever is then a token. Special tokens
/// are found in a text before, and unused ones never. In the order of whole, left and right.
std::vector<GgufMerge> all_gguf_merges(const std::vector<std::string>& tokens,
                                       const std::vector<GgufTokenType>& types);

}  // namespace accrue::models
