#pragma once

#include <cstddef>
#include <string_view>

namespace accrue::data {

/// How many bytes at the beginning of a text are white space (Unicode's White_Space).
std::size_t white_space_at_begin(std::string_view text);

/// Where the white space at the end of a text begins.
std::size_t white_space_at_end(std::string_view text);

/// Whether a text begins, or ends, with a character of words: letters, marks, decimal digits,
/// connecting punctuation (Unicode, Technical Standard 18, \w).
bool begins_with_word(std::string_view text);
bool ends_with_word(std::string_view text);

}  // namespace accrue::data
