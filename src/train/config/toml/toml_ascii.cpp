#include "train/config/toml/toml_ascii.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace accrue::train {
namespace {

constexpr char kMark = '~', kEnd = ';';
constexpr std::size_t kMarkedBytes = 4;  // "~C3;"

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// Bytes of the UTF-8 sequence (RFC 3629) at the start of `text`; 0 if it is invalid.
std::size_t sequence_length(std::string_view text) {
  struct Form {
    std::uint32_t lead_mask, lead, least;
  };
  constexpr std::array<Form, 4> forms{
      {{0x80, 0x00, 0x0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}}};
  const auto byte = [&](std::size_t i) {
    return std::uint32_t{static_cast<unsigned char>(text[i])};
  };
  for (std::size_t length = 1; length <= forms.size(); ++length) {
    const Form& form = forms[length - 1];
    if ((byte(0) & form.lead_mask) != form.lead) continue;
    if (text.size() < length) return 0;
    std::uint32_t character = byte(0) & ~form.lead_mask;
    for (std::size_t i = 1; i < length; ++i) {
      if ((byte(i) & 0xc0U) != 0x80) return 0;
      character = character << 6U | (byte(i) & 0x3fU);
    }
    const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
    return character < form.least || character > 0x10ffff || is_surrogate ? 0 : length;
  }
  return 0;
}

void append_marked(std::string& out, char c) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out += {kMark, digits[byte >> 4U], digits[byte & 15U], kEnd};
}

}  // namespace

std::optional<std::string> to_ascii(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::string ascii;
  ascii.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return std::nullopt;
    for (const char c : text.substr(0, length)) {
      if (is_ascii(c) && c != kMark) {
        ascii += c;
      } else {
        append_marked(ascii, c);
      }
    }
    text.remove_prefix(length);
  }
  return ascii;
}

std::string from_ascii(std::string_view text) {
  std::string original;
  original.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::uint8_t byte = 0;
    const char* const digits = text.data() + at + 1;
    const bool is_marked = text[at] == kMark && text.size() - at >= kMarkedBytes &&
                           std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    original += is_marked ? static_cast<char>(byte) : text[at];
    if (is_marked) at += kMarkedBytes - 1;
  }
  return original;
}

}  // namespace accrue::train
