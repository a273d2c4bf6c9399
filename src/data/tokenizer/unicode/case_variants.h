#pragma once

#include <string>
#include <vector>

#include "data/tokenizer/unicode/code_points.h"

namespace accrue::data {

/// The set with all characters that differ from one in it only by case (Unicode's full case
/// folding, not Turkish).
CodePoints with_case_variants(const CodePoints& characters);

/// A letter with case folded; characters that would become several letters stay.
char32_t folded(char32_t letter);

/// Letters that single characters can replace if case does not matter: ss, and ß with its capital.
struct CaseExpansion {
  std::u32string letters;  ///< folded
  CodePoints characters;
};
const std::vector<CaseExpansion>& case_expansions();

}  // namespace accrue::data
