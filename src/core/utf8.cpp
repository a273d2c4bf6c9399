#include "core/utf8.h"

namespace accrue {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// The length that a lead byte announces; the second byte may be from `least` to `most`.
struct Lead {
  std::size_t length = 0;  ///< 0: it does not begin a character
  unsigned least = 0x80, most = 0xbf;
};

Lead lead_of(unsigned byte) {
  if (byte < 0x80) return {.length = 1};
  if (byte >= 0xc2 && byte <= 0xdf) return {.length = 2};
  if (byte == 0xe0) return {.length = 3, .least = 0xa0};
  if (byte == 0xed) return {.length = 3, .most = 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {.length = 3};
  if (byte == 0xf0) return {.length = 4, .least = 0x90};
  if (byte == 0xf4) return {.length = 4, .most = 0x8f};
  if (byte >= 0xf1 && byte <= 0xf3) return {.length = 4};
  return {};
}

/// Bytes at `at` that begin a character, and whether they are complete.
struct Subpart {
  std::size_t bytes = 1;
  bool is_whole = false;
};

Subpart subpart_at(std::string_view text, std::size_t at) {
  const Lead lead = lead_of(byte_at(text, at));
  if (lead.length == 0) return {};
  std::size_t bytes = 1;
  for (; bytes < lead.length && at + bytes < text.size(); ++bytes) {
    const unsigned byte = byte_at(text, at + bytes);
    const bool fits =
        bytes == 1 ? byte >= lead.least && byte <= lead.most : byte >= 0x80 && byte <= 0xbf;
    if (!fits) break;
  }
  return {bytes, bytes == lead.length};
}

}  // namespace

void append_utf8(char32_t code_point, std::string& text) {
  const auto add = [&](unsigned byte) { text += static_cast<char>(byte); };
  const auto tail = [&](int shift) { add(0x80 | (code_point >> shift & 0x3f)); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xc0 | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    add(0xe0 | code_point >> 12);
    tail(6);
    tail(0);
  } else {
    add(0xf0 | code_point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

char32_t code_point_at(std::string_view text, std::size_t at) {
  const std::size_t length = utf8_length(text[at]);
  char32_t code_point = byte_at(text, at) & (length == 1 ? 0x7fU : 0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i)
    code_point = code_point << 6 | (byte_at(text, at + i) & 0x3fU);
  return code_point;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Subpart part = subpart_at(text, at);
    if (!part.is_whole) return at;
    at += part.bytes;
  }
  return at;
}

std::string lossy_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Subpart part = subpart_at(bytes, at);
    text += part.is_whole ? bytes.substr(at, part.bytes) : replacement_character;
    at += part.bytes;
  }
  return text;
}

}  // namespace accrue
