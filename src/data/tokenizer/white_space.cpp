#include "data/tokenizer/white_space.h"

#include <unicode/uchar.h>

#include "core/utf8.h"

namespace accrue::data {
namespace {

/// Where the last character of a text begins, which is not empty.
std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

bool is_of_words(char32_t c) {
  const auto character = static_cast<UChar32>(c);
  constexpr std::uint32_t kinds = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(character) != 0 || (U_GET_GC_MASK(character) & kinds) != 0 ||
         u_hasBinaryProperty(character, UCHAR_JOIN_CONTROL) != 0;
}

}  // namespace

std::size_t white_space_at_begin(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && is_white_space(code_point_at(text, at))) at += utf8_length(text[at]);
  return at;
}

std::size_t white_space_at_end(std::string_view text) {
  while (!text.empty()) {
    const std::size_t last = last_character(text);
    if (!is_white_space(code_point_at(text, last))) break;
    text = text.substr(0, last);
  }
  return text.size();
}

bool begins_with_word(std::string_view text) {
  return !text.empty() && is_of_words(code_point_at(text, 0));
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_of_words(code_point_at(text, last_character(text)));
}

}  // namespace accrue::data
