#pragma once

#include <optional>
#include <string_view>

#include "data/tokenizer/code_points.h"

namespace accrue::data {

/// The version of Unicode by which patterns, white space and words are told, whatever the
/// libraries of a machine have: Oniguruma's in the tokenizers that accrue is compared with.
std::string_view unicode_version();

/// The characters that `\p{name}` stands for in Oniguruma: general categories, scripts, blocks
/// (In_...), binary properties and POSIX's classes. Case, spaces, hyphens and underscores of a name
/// do not matter; "punct" is the category, and "posixpunct" the class. None if there is no such
/// property.
std::optional<CodePoints> characters_with(std::string_view name);

/// White_Space, and \w as Technical Standard 18 of Unicode has it (letters, marks, decimal digits,
/// connecting punctuation, joiners).
const CodePoints& white_space_characters();
const CodePoints& word_characters();

}  // namespace accrue::data
