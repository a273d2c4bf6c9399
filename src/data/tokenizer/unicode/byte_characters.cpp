#include "data/tokenizer/unicode/byte_characters.h"

#include "core/utf8.h"

namespace accrue::data {
namespace {

constexpr char32_t first_free = 256;
/// After the last character of the table.
constexpr char32_t end_of_characters = first_free + 68;

/// Whether the table shows the byte as the character of the same number.
bool is_shown_as_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

std::array<char32_t, 256> code_points() {
  std::array<char32_t, 256> points{};
  char32_t next_free = first_free;
  for (unsigned byte = 0; byte < points.size(); ++byte)
    points[byte] = is_shown_as_itself(byte) ? byte : next_free++;
  return points;
}

/// The byte that a code point represents; -1: none.
std::array<int, end_of_characters> bytes_of_code_points() {
  std::array<int, end_of_characters> bytes{};
  bytes.fill(-1);
  const auto points = code_points();
  for (std::size_t byte = 0; byte < points.size(); ++byte)
    bytes[points[byte]] = static_cast<int>(byte);
  return bytes;
}

}  // namespace

const std::array<std::string, 256>& byte_characters() {
  static const auto table = [] {
    std::array<std::string, 256> characters;
    const auto points = code_points();
    for (std::size_t byte = 0; byte < points.size(); ++byte)
      append_utf8(points[byte], characters[byte]);
    return characters;
  }();
  return table;
}

std::optional<std::string> bytes_shown_by(std::string_view characters) {
  static const auto table = bytes_of_code_points();
  std::string bytes;
  for (std::size_t at = 0; at < characters.size(); at += utf8_length(characters[at])) {
    const char32_t point = code_point_at(characters, at);
    if (point >= table.size() || table[point] < 0) return std::nullopt;
    bytes += static_cast<char>(table[point]);
  }
  return bytes;
}

}  // namespace accrue::data
