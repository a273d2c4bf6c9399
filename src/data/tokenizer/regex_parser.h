#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer/regex_parts.h"

namespace accrue::data {

/// Parses a pattern in the syntax of Hugging Face's tokenizers (Oniguruma 6.9.10, its own syntax),
/// with its rules for letters, case and ends of lines. Throws a usage Error of the operation `what`
/// for invalid patterns, and for those with grapheme clusters (\X, \y), calls of groups,
/// conditions, absences, callouts, references that ignore case, options other than i, m and x, and
/// counts of two or more of a part that may match nothing.
RegexParts parse_regex(std::string_view pattern, const std::string& what);

}  // namespace accrue::data
