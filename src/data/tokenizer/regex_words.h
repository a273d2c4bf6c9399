#pragma once

#include <string>

#include "data/tokenizer/alphabet.h"
#include "data/tokenizer/regex_parts.h"

namespace accrue::data {

/// The pattern that PCRE2 reads: of bytes, which are kinds of characters; without an alphabet of
/// UTF-8. It has no words whose meaning depends on a version of Unicode.
std::string words_of_pcre2(const RegexParts& parts, const Alphabet* alphabet);

}  // namespace accrue::data
