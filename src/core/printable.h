#pragma once

#include <string>
#include <string_view>

namespace accrue {

/// `text` as a terminal may show it, whoever wrote it. What would move the cursor, colour, ring or
/// turn the direction of writing becomes "\\u001b", as JSON writes a character, and a byte that is
/// no UTF-8 "\\x9b": control characters beside line feeds and tabs, and the marks of bidirectional
/// text. Of a text that was made printable nothing changes.
std::string printable(std::string_view text);

/// The same for a text that is one line of several: line feeds and tabs, too.
std::string printable_line(std::string_view text);

}  // namespace accrue
