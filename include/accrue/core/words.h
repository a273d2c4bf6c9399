#pragma once

#include <string>
#include <vector>

namespace accrue {

/// {"a", "b", "c"} and "or" -> "a, b or c": for messages.
std::string listed(const std::vector<std::string>& words, const std::string& last_word);

}  // namespace accrue
