#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/longest_beginnings.h"
#include "data/tokenizer/regex.h"

namespace accrue::data {

/// A token that is found in texts before they are cut into words.
struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool is_special = false;     ///< decoding may leave it out
  bool is_normalized = false;  ///< it is looked for in the normalised text
  bool is_word = false;        ///< not within a word
  bool strips_left = false;    ///< white space before it is part of it
  bool strips_right = false;
  bool is_left_as_text = false;  ///< where it stands nothing else is found, nor it itself
};

/// Finds tokens in a text: the leftmost, of those the longest. The time is linear in what the
/// tokens have of letters and, for each text, in the text's, whatever either is.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Tokens whose text is empty are never found.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Found {
    Extent extent;  ///< with the white space that it takes
    TokenId id = 0;
  };
  /// All in `text`, none within another.
  std::vector<Found> find(std::string_view text) const;
  bool is_empty() const { return tokens_.empty(); }

 private:
  std::vector<AddedToken> tokens_;
  LongestBeginnings beginnings_;
};

}  // namespace accrue::data
