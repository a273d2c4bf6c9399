#pragma once

#include <cstdint>
#include <string_view>

namespace accrue::models {

/// The type of a token, by the numbers of "tokenizer.ggml.token_type".
enum class GgufTokenType : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,       ///< special: not text
  user_defined = 4,  ///< found in text before anything else
  unused = 5,        ///< a row of the embedding that no text uses
  byte = 6,
};

/// Whether a token of SentencePiece is that of a byte: "<0x0A>".
constexpr bool is_byte_token(std::string_view token) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>') &&
         digits.find(token[3]) != digits.npos && digits.find(token[4]) != digits.npos;
}

}  // namespace accrue::models
