#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/data/tokenizer.h"

namespace accrue::cli {

/// The text of tokens as they come: no piece ends within a character.
class TextStream {
 public:
  /// `tokenizer` is kept by pointer; null: tokens are bytes.
  explicit TextStream(const data::Tokenizer* tokenizer);

  /// What can be told after one more token. Special tokens, and those that the tokenizer does not
  /// have, are no text. Throws a usage Error for an id that is no byte where tokens are bytes.
  std::string add(std::int64_t id);
  /// What was held back, at the end.
  std::string end();

 private:
  const data::Tokenizer* tokenizer_;
  std::optional<data::Tokenizer::Decoder> decoder_;
  std::string bytes_;  ///< of a character that is not whole yet
};

}  // namespace accrue::cli
