#pragma once

#include <string>

#include "data/tokenizer/regex/alphabet.h"
#include "data/tokenizer/regex/regex_parts.h"

namespace accrue::data {

/// The pattern for PCRE2: of bytes, which are kinds of characters; without an alphabet of UTF-8.
/// Nothing in it depends on a version of Unicode.
std::string words_of_pcre2(const RegexParts& parts, const Alphabet* alphabet);

}  // namespace accrue::data
