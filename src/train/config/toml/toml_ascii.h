#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue::train {

/// toml++ 3.3 classifies characters outside ASCII with code that ends in __builtin_unreachable()
/// for most of them. TOML 1.0 allows them in strings and comments only, so the parser is given text
/// without any: each of their bytes, and '~', becomes "~C3;" (where one is a mistake outside
/// strings, the parser sees a '~', which is a mistake there as well).
///
/// The result is empty if `text` is not UTF-8, as TOML requires. A byte order mark is
/// removed.
std::optional<std::string> to_ascii(std::string_view text);
/// Restores the argument of to_ascii().
std::string from_ascii(std::string_view text);

}  // namespace accrue::train
