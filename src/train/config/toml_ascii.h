#pragma once

#include <optional>
#include <string_view>

namespace accrue::train {

/// TOML 1.0 has characters outside ASCII in strings and comments alone. Where the first one stands
/// that is elsewhere (or follows a backslash and spaces in a string of several lines), as an offset
/// into `text`; nothing where there is none.
///
/// toml++ 3.3 asks of such characters whether they are spaces, by code that ends in
/// __builtin_unreachable() for most of them: they must not get there.
std::optional<std::size_t> stray_character(std::string_view text);

}  // namespace accrue::train
