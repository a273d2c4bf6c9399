#include "data/tokenizer/regex/regex_reader.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include "accrue/core/error.h"
#include "core/utf8.h"
#include "data/json/json_part.h"
#include "data/tokenizer/unicode/character_properties.h"

namespace accrue::data {
namespace {

constexpr std::size_t most_pattern_bytes = std::size_t{1} << 16;
constexpr std::string_view hexadecimal_digits = "0123456789abcdef";

bool is_digit_of(char c, unsigned base) {
  const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return hexadecimal_digits.substr(0, base).find(lower) != std::string_view::npos;
}

/// A letter that means a set after a backslash, and the one for all other characters.
struct LetteredSet {
  std::string_view letter, opposite, name;
};

constexpr std::array<LetteredSet, 4> lettered_sets{
    {{"w", "W", "word"}, {"d", "D", "digit"}, {"s", "S", "space"}, {"h", "H", "xdigit"}}};

/// Letters that mean control characters; others mean themselves.
char32_t control_named(char32_t letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'e':
      return 0x1b;
    default:
      return letter;
  }
}

}  // namespace

RegexReader::RegexReader(std::string_view pattern, std::string what)
    : pattern_(pattern), what_(std::move(what)) {
  if (pattern.size() > most_pattern_bytes)
    throw usage_error(what_, "a pattern of at most 64 KiB",
                      std::to_string(pattern.size()) + " bytes", whole_tokenizer_file);
  if (valid_utf8_prefix(pattern) != pattern.size()) reject("bytes that are no UTF-8");
}

char32_t RegexReader::next() {
  const char32_t c = code_point_at(pattern_, at_);
  at_ += utf8_length(pattern_[at_]);
  return c;
}

bool RegexReader::skip(std::string_view text) {
  if (!rest().starts_with(text)) return false;
  at_ += text.size();
  return true;
}

std::string RegexReader::digits(std::size_t most, unsigned base) {
  std::string read;
  while (read.size() < most && !is_at_end() && is_digit_of(pattern_[at_], base))
    read += pattern_[at_++];
  return read;
}

std::optional<CodePoints> RegexReader::escaped_set() {
  if (skip("p{")) return property();
  if (skip("P{")) return ~property();
  for (const LetteredSet& set : lettered_sets) {
    if (skip(set.letter)) return characters_with(set.name);
    if (skip(set.opposite)) return ~characters_with(set.name).value();
  }
  return std::nullopt;
}

/// After "p{".
CodePoints RegexReader::property() {
  const bool is_negated = skip("^");
  const std::size_t end = rest().find('}');
  if (end == std::string_view::npos) reject("\\p{ without }");
  const std::string name(rest().substr(0, end));
  const std::optional<CodePoints> characters = characters_with(name);
  if (!characters) refuse("\\p{" + name + "}");
  at_ += end + 1;
  return is_negated ? ~*characters : *characters;
}

char32_t RegexReader::escaped_character() {
  if (is_at_end()) reject("a backslash at its end");
  if (skip("x{") || skip("o{")) {
    const unsigned base = pattern_[at_ - 2] == 'x' ? 16 : 8;
    const char32_t c = code_point_of(digits(11, base), base);
    if (!skip("}")) refuse("several code points in \\x{...}");
    return c;
  }
  if (skip("x")) {
    const std::string read = digits(2, 16);
    const char32_t value = read.empty() ? 0 : code_point_of(read, 16);
    return value < 0x80 ? value : of_bytes(value);
  }
  if (skip("u")) {
    const std::string read = digits(4, 16);
    if (read.size() != 4) reject("\\u without four digits");
    return code_point_of(read, 16);
  }
  if (is_digit_of(pattern_[at_], 8)) {
    const char32_t value = code_point_of(digits(3, 8), 8);
    return value < 0x80 ? value : of_bytes(value);
  }
  for (const char* const other : {"M-", "C-"})
    if (rest().starts_with(other)) refuse("\\" + std::string(other));
  if (skip("c")) {
    if (is_at_end()) reject("\\c at its end");
    const char32_t c = next();
    if (c == '\\') refuse("\\c\\");
    return c == '?' ? char32_t{0x7f} : c & 0x9fU;
  }
  return control_named(next());
}

char32_t RegexReader::code_point_of(const std::string& digits, unsigned base) const {
  std::uint32_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [last, error] = std::from_chars(digits.data(), end, value, static_cast<int>(base));
  if (error != std::errc{} || last != end || value > CodePoints::largest ||
      (value >= 0xd800 && value <= 0xdfff))
    reject("a number that is no code point");
  return value;
}

/// Bytes of one character, each stated separately.
char32_t RegexReader::of_bytes(unsigned first) {
  std::string bytes(1, static_cast<char>(first));
  const std::size_t length = utf8_length(bytes[0]);
  while (bytes.size() < length && skip("\\x"))
    bytes += static_cast<char>(code_point_of(digits(2, 16), 16));
  if (valid_utf8_prefix(bytes) != length) reject("bytes that are no character");
  return code_point_at(bytes, 0);
}

void RegexReader::refuse(const std::string& feature) const {
  throw usage_error(what_, "a pattern without " + feature, "'" + std::string(pattern_) + "'",
                    "token files made with that tokenizer (data.format = \"tokens\")");
}

void RegexReader::reject(const std::string& fault) const {
  throw usage_error(what_, "a regular expression",
                    "'" + std::string(pattern_) + "' (" + fault + ")", whole_tokenizer_file);
}

}  // namespace accrue::data
