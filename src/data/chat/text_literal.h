#pragma once

#include <string>
#include <string_view>

namespace accrue::data::jinja {

/// What a text between quotes stands for: Python's escapes, as jinja2 reads them (unicode-escape
/// of the ASCII form, so that a backslash before another character stays, and what it is before is
/// written as an escape). Throws a usage Error for escapes that stand for no character.
std::string text_of_literal(std::string_view written, const std::string& what, int line);

}  // namespace accrue::data::jinja
