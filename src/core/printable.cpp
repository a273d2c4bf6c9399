#include "core/printable.h"

#include <array>
#include <cstdio>

#include "core/utf8.h"

namespace accrue {
namespace {

bool is_between(char32_t code_point, char32_t first, char32_t last) {
  return code_point >= first && code_point <= last;
}

/// The control characters of ECMA-48 (C0, DEL, C1).
bool is_control(char32_t code_point) {
  return code_point < 0x20 || is_between(code_point, 0x7f, 0x9f);
}

/// The characters of The Unicode Standard, Annex 9, that change the direction of writing.
bool turns_direction(char32_t code_point) {
  return code_point == 0x61c || is_between(code_point, 0x200e, 0x200f) ||
         is_between(code_point, 0x202a, 0x202e) || is_between(code_point, 0x2066, 0x2069);
}

bool lays_out_lines(char32_t code_point) { return code_point == '\n' || code_point == '\t'; }

void append_escaped(const char* format, unsigned value, std::string& text) {
  std::array<char, 16> escaped{};
  std::snprintf(escaped.data(), escaped.size(), format, value);
  text += escaped.data();
}

std::string escaped(std::string_view text, bool keeps_lines) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at + valid_utf8_prefix(text.substr(at));
    while (at < end) {
      const std::size_t length = utf8_length(text[at]);
      const char32_t code_point = code_point_at(text, at);
      const bool is_kept = keeps_lines && lays_out_lines(code_point);
      if (!is_kept && (is_control(code_point) || turns_direction(code_point)))
        append_escaped("\\u%04x", code_point, shown);
      else
        shown += text.substr(at, length);
      at += length;
    }
    if (at < text.size()) append_escaped("\\x%02x", static_cast<unsigned char>(text[at++]), shown);
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, true); }

std::string printable_line(std::string_view text) { return escaped(text, false); }

}  // namespace accrue
