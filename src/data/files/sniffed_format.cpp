#include "data/files/sniffed_format.h"

#include <nlohmann/json.hpp>

namespace accrue::data {
namespace {

constexpr std::string_view blank = " \t\r\n";

/// `text` without the blanks at its beginning, and without `sign` after them; empty if another
/// character is there.
std::string_view behind(std::string_view text, char sign) {
  const std::size_t begin = text.find_first_not_of(blank);
  if (begin == text.npos || text[begin] != sign) return {};
  return text.substr(begin + 1);
}

/// Whether text that follows a brace continues like an object: a key and a colon.
bool goes_on_as_object(std::string_view text) {
  std::string_view key = behind(text, '"');
  for (std::size_t i = 0; i < key.size() && key[i] != '\n'; ++i) {
    if (key[i] == '\\')
      ++i;
    else if (key[i] == '"')
      return !behind(key.substr(i + 1), ':').empty();
  }
  return false;
}

std::string_view without_byte_order_mark(std::string_view bytes) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  return bytes.starts_with(mark) ? bytes.substr(mark.size()) : bytes;
}

}  // namespace

SniffedFormat sniff_format(std::string_view bytes, bool is_all) {
  bytes = without_byte_order_mark(bytes);
  const std::size_t begin = bytes.find_first_not_of(blank);
  if (begin == bytes.npos)
    return is_all || bytes.size() >= most_sniffed_bytes / 2 ? SniffedFormat::text
                                                            : SniffedFormat::unclear;
  bytes.remove_prefix(begin);
  if (bytes.front() == '[' && goes_on_as_object(behind(bytes.substr(1), '{')))
    return SniffedFormat::json_document;
  if (bytes.front() != '{') return SniffedFormat::text;
  const std::size_t feed = bytes.find('\n');
  if (feed == bytes.npos && !is_all) return SniffedFormat::unclear;
  if (nlohmann::json::accept(bytes.substr(0, feed))) return SniffedFormat::json_lines;
  return goes_on_as_object(bytes.substr(1)) ? SniffedFormat::json_document : SniffedFormat::text;
}

}  // namespace accrue::data
