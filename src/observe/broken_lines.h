#pragma once

#include <string>

namespace accrue::observe {

/// `line` in lines of at most `columns`, broken at spaces. All but the first are indented by two. A
/// longer word is in a line of its own, which the terminal breaks. Spaces within a line stay.
std::string broken_at_words(std::string line, int columns);

}  // namespace accrue::observe
