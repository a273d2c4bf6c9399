#include "observe/broken_lines.h"

#include <algorithm>
#include <cstddef>

#include "observe/styled_text.h"

namespace accrue::observe {
namespace {

/// The last space of `line` with at most `columns` before it, or the first space; `npos` without a
/// space behind the first word.
std::size_t place_to_break(const std::string& line, int columns) {
  std::size_t place = line.find(' ', std::min(line.find_first_not_of(' '), line.size()));
  for (std::size_t next = place;
       next != std::string::npos && columns_of(line.substr(0, next)) <= columns;
       next = line.find(' ', next + 1))
    place = next;
  return place;
}

}  // namespace

std::string broken_at_words(std::string line, int columns) {
  const std::string indent = "  ";
  std::string lines;
  while (columns_of(line) > columns) {
    const std::size_t place = place_to_break(line, columns);
    const std::size_t rest =
        place == std::string::npos ? place : line.find_first_not_of(' ', place);
    if (rest == std::string::npos) break;
    const std::size_t end = line.find_last_not_of(' ', place);
    lines += line.substr(0, end + 1) + "\n";
    line = indent + line.substr(rest);
  }
  return lines + line;
}

}  // namespace accrue::observe
