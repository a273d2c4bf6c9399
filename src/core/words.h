#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

/// {"a", "b", "c"} and "or" -> "a, b or c": for messages.
std::string listed(const std::vector<std::string>& words, const std::string& last_word);

/// {"a", "b", "c", "d"} and 2 -> "a, b and 2 more": the first `most` of many names.
std::string first_few(std::vector<std::string> names, std::size_t most);

/// 1 -> "1 micro-batch", 2 -> "2 micro-batches": `one` in its plural, which ends in -es after a
/// sibilant and otherwise in -s.
std::string counted(std::int64_t count, const std::string& one);

/// fp32 -> "fp32", with the quotes, as in a config.
std::string in_quotes(std::string_view word);

/// 524288 -> "524,288"; four digits are not separated.
std::string digit_groups(std::int64_t integer, char separator = ',');

}  // namespace accrue
