#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/data/tokenizer.h"

namespace accrue::cli {

/// The text of tokens as they arrive: no piece ends within a character.
class TextStream {
 public:
  /// `tokenizer` is kept by pointer; null: tokens are bytes.
  explicit TextStream(const data::Tokenizer* tokenizer);

  /// The text that is complete after one more token. Special tokens and those unknown to the
  /// tokenizer are not text. Throws a usage Error for an id that is not a byte if tokens are bytes.
  std::string add(std::int64_t id);
  /// The rest that was held back, at the end.
  std::string end();

 private:
  const data::Tokenizer* tokenizer_;
  std::optional<data::Tokenizer::Decoder> decoder_;
  std::string bytes_;  ///< of an incomplete character
};

}  // namespace accrue::cli
