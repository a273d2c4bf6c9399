#pragma once

#include <string>
#include <string_view>

namespace accrue {

/// Untrusted `text` in a form that a terminal may show. Characters that would move the
/// cursor, colour, ring or change the direction of writing become "\\u001b", as in JSON, and bytes
/// that are not UTF-8 "\\x9b": control characters except line feeds and tabs, and the marks of
/// bidirectional text. Applying it again changes nothing.
std::string printable(std::string_view text);

/// The same for a text that is one line of several: also for line feeds and tabs.
std::string printable_line(std::string_view text);

}  // namespace accrue
