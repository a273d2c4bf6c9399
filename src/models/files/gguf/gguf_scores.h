#pragma once

#include <string>
#include <vector>

#include "data/tokenizer/read_bpe.h"
#include "models/files/gguf/gguf_token_types.h"

namespace accrue::models {

/// Scores of tokens, the likeliest of which llama.cpp's tokenizer of characters puts together
/// first, or why it would not make the ids that merges do.
struct GgufScores {
  std::vector<float> scores;
  std::string obstacle;  ///< empty: none
};

/// The scores that say what the merges of `bpe` do. `tokens` and `types` are those of the file,
/// by id, the tokens of `bpe` among them.
GgufScores scores_of_merges(const data::ReadBpe& bpe, const std::vector<std::string>& tokens,
                            const std::vector<GgufTokenType>& types);

/// A normal token that merges do not make of its own text, in quotes; empty if there is none: it
/// is the same then whether words that are tokens are looked up first.
std::string token_out_of_reach(const data::ReadBpe& bpe, const std::vector<GgufTokenType>& types);

}  // namespace accrue::models
