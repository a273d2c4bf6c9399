#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue::train {

/// toml++ 3.3 asks of characters outside ASCII whether they are spaces, by code that ends in
/// __builtin_unreachable() for most of them. TOML 1.0 has them in strings and comments alone, so it
/// is given text without any: each of their bytes, and '~', becomes "~C3;" (of a mistake outside
/// strings it then sees a '~', which is one there as well).
///
/// The result is nothing where `text` is not UTF-8, as TOML has to be. A byte order mark is taken
/// off.
std::optional<std::string> to_ascii(std::string_view text);
/// What to_ascii() was given.
std::string from_ascii(std::string_view text);

}  // namespace accrue::train
