#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accrue {

/// U+FFFD, the replacement of invalid UTF-8.
inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";

/// The number of bytes of the character that begins with `lead`, in valid UTF-8.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  return byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// Appends a code point.
void append_utf8(char32_t code_point, std::string& text);

/// The code point at `at` of valid UTF-8.
char32_t code_point_at(std::string_view text, std::size_t at);

/// The number of bytes at the beginning that are complete UTF-8 characters (RFC 3629).
std::size_t valid_utf8_prefix(std::string_view text);

/// The text with U+FFFD for invalid UTF-8: one for each maximal subpart (The Unicode Standard,
/// section 3.9), like Rust's from_utf8_lossy and Python's errors="replace".
std::string lossy_utf8(std::string_view bytes);

}  // namespace accrue
