#include "data/json/line_place.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace accrue::data {
namespace {

constexpr std::string_view json_space = " \t\r\n";
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

bool is_of_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '+' || c == '-' || c == '.';
}

/// Scans a line of JSON from its beginning, as far as it is JSON.
class LineScanner {
 public:
  explicit LineScanner(std::string_view line)
      : line_(line), at_(line.starts_with(byte_order_mark) ? byte_order_mark.size() : 0) {}

  std::optional<std::size_t> find(const LinePlace& place) {
    if (!take('{')) return std::nullopt;
    while (true) {
      const std::optional<std::string_view> key = take_string();
      if (!key || !take(':')) return std::nullopt;
      if (*key == place.key) return place.element ? find_element(*place.element) : column();
      skip_value();
      if (!take(',')) return std::nullopt;
    }
  }

 private:
  std::optional<std::size_t> find_element(std::size_t index) {
    if (!take('[')) return std::nullopt;
    for (std::size_t i = 0; i < index; ++i) {
      skip_value();
      if (!take(',')) return std::nullopt;
    }
    return column();
  }

  /// Of the next value.
  std::optional<std::size_t> column() {
    skip_space();
    return at_ < line_.size() ? std::optional(at_ + 1) : std::nullopt;
  }

  void skip_space() { at_ = std::min(line_.find_first_not_of(json_space, at_), line_.size()); }

  bool take(char wanted) {
    skip_space();
    if (at_ >= line_.size() || line_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  /// A string in its source form, without its quotes.
  std::optional<std::string_view> take_string() {
    if (!take('"')) return std::nullopt;
    const std::size_t begin = at_;
    for (; at_ < line_.size(); ++at_) {
      if (line_[at_] == '\\') {
        ++at_;
      } else if (line_[at_] == '"') {
        ++at_;
        return line_.substr(begin, at_ - 1 - begin);
      }
    }
    at_ = line_.size();  // an escape at the end was beyond it
    return std::nullopt;
  }

  void skip_value() {
    std::size_t depth = 0;
    for (skip_space(); at_ < line_.size();) {
      const char c = line_[at_];
      if (c == '"') {
        take_string();
        continue;
      }
      if (depth == 0 && (c == ',' || c == ']' || c == '}')) return;
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
      ++at_;
    }
  }

  std::string_view line_;
  std::size_t at_;
};

}  // namespace

std::optional<std::size_t> column_of(std::string_view line, const LinePlace& place) {
  return LineScanner(line).find(place);
}

StrayWord stray_word(std::string_view line, std::size_t column) {
  if (column < 1 || column > line.size() || !is_of_word(line[column - 1])) return {};
  std::size_t begin = column - 1, end = column;
  while (begin > 0 && is_of_word(line[begin - 1])) --begin;
  while (end < line.size() && is_of_word(line[end])) ++end;
  const std::size_t before = begin == 0 ? line.npos : line.find_last_not_of(json_space, begin - 1);
  const bool begins_a_value =
      before != line.npos && (line[before] == ':' || line[before] == '[' || line[before] == ',');
  return begins_a_value ? StrayWord{line.substr(begin, end - begin), begin + 1} : StrayWord{};
}

bool is_long_integer_at(std::string_view line, const LinePlace& place) {
  const std::optional<std::size_t> column = column_of(line, place);
  return column && is_long_integer(stray_word(line, *column).text);
}

bool is_long_integer(std::string_view number) {
  const bool is_negative = number.starts_with('-');
  if (number.empty() || number.find_first_not_of("0123456789", is_negative ? 1 : 0) != number.npos)
    return false;
  const char* const end = number.data() + number.size();
  std::int64_t whole = 0;
  std::uint64_t natural = 0;
  const std::errc error = is_negative ? std::from_chars(number.data(), end, whole).ec
                                      : std::from_chars(number.data(), end, natural).ec;
  return error == std::errc::result_out_of_range;
}

}  // namespace accrue::data
