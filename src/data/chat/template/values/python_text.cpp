#include "data/chat/template/values/python_text.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/utf8.h"
#include "data/tokenizer/unicode/white_space.h"

namespace accrue::data::jinja {
namespace {

constexpr auto nowhere = std::string_view::npos;

bool is_separator_control(char c) { return c >= '\x1c' && c <= '\x1f'; }

/// Where the last code point of a text begins.
std::size_t last_begin(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

std::size_t trailing_white_space(std::string_view text) {
  if (text.empty()) return 0;
  if (is_separator_control(text.back())) return 1;
  const std::string_view last = text.substr(last_begin(text));
  return white_space_at_begin(last) > 0 ? last.size() : 0;
}

/// Bytes of the line end at the start of the text, among those that str.splitlines knows.
std::size_t line_end_length(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  const auto first = static_cast<unsigned char>(text.front());
  if ((first >= 0x0a && first <= 0x0d) || (first >= 0x1c && first <= 0x1e)) return 1;
  if (text.starts_with("\xc2\x85")) return 2;
  return text.starts_with("\xe2\x80\xa8") || text.starts_with("\xe2\x80\xa9") ? 3 : 0;
}

std::vector<std::string> split_at_space(std::string_view text, std::int64_t most) {
  std::vector<std::string> parts;
  text = stripped_left(text);
  while (!text.empty()) {
    if (most >= 0 && parts.size() == static_cast<std::size_t>(most)) {
      parts.emplace_back(stripped_right(text));
      return parts;
    }
    std::size_t end = 0;
    while (end < text.size() && white_space_length(text.substr(end)) == 0)
      end += utf8_length(text[end]);
    parts.emplace_back(text.substr(0, end));
    text = stripped_left(text.substr(end));
  }
  return parts;
}

std::vector<std::string> split_at_space_from_end(std::string_view text, std::int64_t most) {
  std::vector<std::string> parts;
  text = stripped_right(text);
  while (!text.empty()) {
    if (most >= 0 && parts.size() == static_cast<std::size_t>(most)) {
      parts.emplace_back(stripped_left(text));
      break;
    }
    std::size_t begin = text.size();
    while (begin > 0 && trailing_white_space(text.substr(0, begin)) == 0)
      begin = last_begin(text.substr(0, begin));
    parts.emplace_back(text.substr(begin));
    text = stripped_right(text.substr(0, begin));
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string> split_at(std::string_view text, std::string_view separator,
                                  std::int64_t most) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (most < 0 || parts.size() < static_cast<std::size_t>(most)) {
    const std::size_t found = find_text(text, separator, begin);
    if (found == nowhere) break;
    parts.emplace_back(text.substr(begin, found - begin));
    begin = found + separator.size();
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

/// The bytes in reverse order, to search from the end in linear time.
std::string backwards(std::string_view text) { return {text.rbegin(), text.rend()}; }

std::vector<std::string> split_at_from_end(std::string_view text, std::string_view separator,
                                           std::int64_t most) {
  std::vector<std::string> parts = split_at(backwards(text), backwards(separator), most);
  for (std::string& part : parts) std::ranges::reverse(part);
  std::ranges::reverse(parts);
  return parts;
}

}  // namespace

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::size_t byte_of(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += utf8_length(text[at]);
  return at;
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> characters;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at]))
    characters.emplace_back(text.substr(at, utf8_length(text[at])));
  return characters;
}

std::size_t white_space_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const std::size_t more =
        is_separator_control(text[length]) ? 1 : white_space_at_begin(text.substr(length));
    if (more == 0) break;
    length += more;
  }
  return length;
}

std::string_view stripped_left(std::string_view text) {
  return text.substr(white_space_length(text));
}

std::string_view stripped_right(std::string_view text) {
  while (const std::size_t end = trailing_white_space(text)) text.remove_suffix(end);
  return text;
}

std::string_view stripped(std::string_view text, std::optional<std::string_view> characters,
                          bool left, bool right) {
  if (!characters) {
    if (left) text = stripped_left(text);
    return right ? stripped_right(text) : text;
  }
  std::set<std::string_view> known;
  for (std::size_t at = 0; at < characters->size(); at += utf8_length((*characters)[at]))
    known.insert(characters->substr(at, utf8_length((*characters)[at])));
  const auto is_one = [&](std::string_view character) { return known.contains(character); };
  while (left && !text.empty() && is_one(text.substr(0, utf8_length(text[0]))))
    text.remove_prefix(utf8_length(text[0]));
  while (right && !text.empty() && is_one(text.substr(last_begin(text))))
    text = text.substr(0, last_begin(text));
  return text;
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return nowhere;
  if (part.empty()) return from;
  const void* const found =
      ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return nowhere;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_last_text(std::string_view text, std::string_view part) {
  const std::size_t found = find_text(backwards(text), backwards(part), 0);
  return found == nowhere ? nowhere : text.size() - found - part.size();
}

std::size_t count_text(std::string_view text, std::string_view part) {
  if (part.empty()) return code_points(text) + 1;
  std::size_t count = 0;
  for (std::size_t at = find_text(text, part, 0); at != nowhere;
       at = find_text(text, part, at + part.size()))
    ++count;
  return count;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     std::int64_t most) {
  std::string result;
  std::size_t begin = 0;
  for (std::int64_t count = 0; most < 0 || count < most; ++count) {
    std::size_t found = find_text(text, old, begin);
    if (old.empty() && count > 0 && begin < text.size()) found = begin + utf8_length(text[begin]);
    if (found == nowhere || (old.empty() && count > 0 && begin == text.size())) break;
    result.append(text.substr(begin, found - begin)).append(by);
    begin = found + old.size();
  }
  return result.append(text.substr(begin));
}

std::vector<std::string> split_text(std::string_view text,
                                    std::optional<std::string_view> separator, std::int64_t most,
                                    bool from_end) {
  if (!separator)
    return from_end ? split_at_space_from_end(text, most) : split_at_space(text, most);
  const bool matters = from_end && most >= 0;
  return matters ? split_at_from_end(text, *separator, most) : split_at(text, *separator, most);
}

std::vector<std::string> split_lines(std::string_view text, bool keeps_ends) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = line_end_length(text.substr(at));
    if (end == 0) {
      at += utf8_length(text[at]);
      continue;
    }
    lines.emplace_back(text.substr(begin, at - begin + (keeps_ends ? end : 0)));
    begin = at += end;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

}  // namespace accrue::data::jinja
