#include "observe/styled_text.h"

#include <algorithm>

#include "core/printable.h"

namespace accrue::observe {
namespace {

constexpr const char* plain_again = "\x1b[0m";

/// ECMA-48, "select graphic rendition".
const char* begin_of(Look look) {
  switch (look) {
    case Look::faint:
      return "\x1b[2m";
    case Look::strong:
      return "\x1b[1m";
    case Look::good:
      return "\x1b[32m";
    case Look::caution:
      return "\x1b[33m";
    case Look::danger:
      return "\x1b[31m";
    case Look::plain:
      break;
  }
  return "";
}

/// Continuation bytes of UTF-8 start with the bits 10.
bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }

}  // namespace

int columns_of(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, begins_character));
}

StyledText& StyledText::add(std::string_view text, Look look) {
  parts_.push_back({printable_line(text), look});
  columns_ += columns_of(parts_.back().text);
  return *this;
}

StyledText& StyledText::pad_to(int columns) {
  if (columns > columns_) add(std::string(static_cast<std::size_t>(columns - columns_), ' '));
  return *this;
}

void StyledText::cut_to(int columns) {
  int left = std::max(columns, 0);
  columns_ = std::min(columns_, left);
  for (Part& part : parts_) {
    std::size_t end = 0;
    for (; end < part.text.size(); ++end) {
      if (!begins_character(part.text[end])) continue;
      if (left == 0) break;
      --left;
    }
    part.text.resize(end);
  }
}

std::string StyledText::in_bytes(bool colours) const {
  std::string bytes;
  for (const Part& part : parts_)
    bytes += colours && part.look != Look::plain && !part.text.empty()
                 ? begin_of(part.look) + part.text + plain_again
                 : part.text;
  return bytes;
}

}  // namespace accrue::observe
