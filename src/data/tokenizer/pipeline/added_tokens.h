#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/pipeline/bpe.h"
#include "data/tokenizer/pipeline/longest_matches.h"
#include "data/tokenizer/regex/regex.h"

namespace accrue::data {

/// A token that is found in texts before they are cut into words.
struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool is_special = false;     ///< decoding may leave it out
  bool is_normalized = false;  ///< it is searched in the normalised text
  bool is_word = false;        ///< not within a word
  bool strips_left = false;    ///< white space before it is part of it
  bool strips_right = false;
  bool is_left_as_text = false;  ///< it blocks matches at its place, also of itself
};

/// Finds tokens in a text: the leftmost, of those the longest. The time is linear in the letters of
/// the tokens and, for each text, in its length, whatever they are.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Tokens whose text is empty are never found.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Found {
    Extent extent;  ///< with its white space
    TokenId id = 0;
  };
  /// All tokens in `text`, without overlaps.
  std::vector<Found> find(std::string_view text) const;
  bool is_empty() const { return tokens_.empty(); }

 private:
  std::vector<AddedToken> tokens_;
  LongestMatches beginnings_;
};

}  // namespace accrue::data
