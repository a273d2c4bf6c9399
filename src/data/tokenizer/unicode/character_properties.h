#pragma once

#include <optional>
#include <string_view>

#include "data/tokenizer/unicode/code_points.h"

namespace accrue::data {

/// The version of Unicode for patterns, white space and words, whatever a machine's libraries have:
/// Oniguruma's in the tokenizers with which accrue is compared.
std::string_view unicode_version();

/// The characters of `\p{name}` in Oniguruma: general categories, scripts, blocks (In_...),
/// binary properties and POSIX's classes. Case, spaces, hyphens and underscores of a name do not
/// matter; "punct" is the category, and "posixpunct" the class. None if there is no such
/// property.
std::optional<CodePoints> characters_with(std::string_view name);

/// White_Space, and \w as in Technical Standard 18 of Unicode (letters, marks, decimal digits,
/// connecting punctuation, joiners).
const CodePoints& white_space_characters();
const CodePoints& word_characters();

}  // namespace accrue::data
