#pragma once

#include <string>
#include <string_view>

namespace accrue::data::jinja {

/// The value of a quoted text: Python's escapes, as jinja2 reads them (unicode-escape of the ASCII
/// form, so that a backslash before another character stays, and the character after it is written
/// as an escape). Throws a usage Error for escapes that are not a character.
std::string text_of_literal(std::string_view written, const std::string& what, int line);

}  // namespace accrue::data::jinja
