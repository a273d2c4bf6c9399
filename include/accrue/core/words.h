#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue {

/// {"a", "b", "c"} and "or" -> "a, b or c": for messages.
std::string listed(const std::vector<std::string>& words, const std::string& last_word);

/// 1 -> "1 micro-batch", 2 -> "2 micro-batches": `one` in its plural, which ends in -es behind a
/// hiss, else in -s.
std::string counted(std::int64_t count, const std::string& one);

}  // namespace accrue
