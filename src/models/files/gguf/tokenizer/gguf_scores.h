#pragma once

#include <string>
#include <vector>

#include "data/tokenizer/pipeline/read_bpe.h"
#include "models/files/gguf/tokenizer/gguf_token_types.h"

namespace accrue::models {

/// Scores of tokens, of which llama.cpp's tokenizer of characters joins the likeliest first, or the
/// reason why its ids would differ from those of merges.
struct GgufScores {
  std::vector<float> scores;
  std::string obstacle;  ///< empty: none
};

/// The scores with the same effect as the merges of `bpe`. `tokens` and `types` are those of the
/// file, by id, with the tokens of `bpe` among them.
GgufScores scores_of_merges(const data::ReadBpe& bpe, const std::vector<std::string>& tokens,
                            const std::vector<GgufTokenType>& types);

/// A normal token that merges do not make from its own text, in quotes; empty if there is none:
/// then it makes no difference whether words that are tokens are looked up first.
std::string token_out_of_reach(const data::ReadBpe& bpe, const std::vector<GgufTokenType>& types);

}  // namespace accrue::models
