#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer/regex/regex_parts.h"

namespace accrue::data {

/// Reads a pattern in the syntax that Hugging Face's tokenizers read (Oniguruma 6.9.10, its own
/// syntax), with what it takes for letters, case and ends of lines. Throws a usage Error, its
/// operation being `what`, of patterns that are none, and of those with grapheme clusters (\X, \y),
/// calls of groups, conditions, absences, callouts, references that ignore case, options other than
/// i, m and x, counts of two or more of what may match nothing before something, and references
/// beside a repeated group that may match nothing.
RegexParts parse_regex(std::string_view pattern, const std::string& what);

}  // namespace accrue::data
