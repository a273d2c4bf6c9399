#include "data/tokenizer/unicode/white_space.h"

#include "core/utf8.h"
#include "data/tokenizer/unicode/character_properties.h"

namespace accrue::data {
namespace {

/// The offset of the last character of a text, which is not empty.
std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

bool is_white_space(char32_t c) { return white_space_characters().has(c); }

bool is_of_words(char32_t c) { return word_characters().has(c); }

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
