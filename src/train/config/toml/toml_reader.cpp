#include "train/config/toml/toml_reader.h"

// The parser asserts on some invalid input, for which it reports an error as well.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "accrue/core/error.h"
#include "train/config/toml/toml_ascii.h"
#include "train/config/toml/toml_mistakes.h"

namespace accrue::train {
namespace {

std::string type_name(const toml::node& node) {
  std::ostringstream name;
  name << node.type();
  return name.str();
}

Value element_value(const toml::node& node);

Value to_value(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return {flag->get()};
  if (const auto* integer = node.as_integer()) return {integer->get()};
  if (const auto* real = node.as_floating_point()) return {real->get()};
  if (const auto* text = node.as_string()) return {from_ascii(text->get())};
  if (const auto* array = node.as_array()) {
    Value::Array elements;
    for (const toml::node& element : *array) elements.push_back(element_value(element));
    return {std::move(elements)};
  }
  return {Value::Other{type_name(node)}};
}

/// An array's elements may be tables; values elsewhere may not.
Value element_value(const toml::node& node) {
  const auto* table = node.as_table();
  if (!table) return to_value(node);
  Value::Table fields;
  for (const auto& [key, value] : *table)
    fields.push_back({from_ascii(key.str()), element_value(value)});
  return {std::move(fields)};
}

std::string position_text(const std::string& origin, const toml::source_position& position) {
  return origin + ":" + std::to_string(position.line) + ":" + std::to_string(position.column);
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& origin,
             std::vector<Entry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix + from_ascii(key.str());
    const toml::table* inner = node.as_table();
    if (inner && !inner->empty()) {
      flatten(*inner, path + ".", origin, entries);
    } else {
      entries.push_back(
          {path, to_value(node), position_text(origin, key.source().begin), std::nullopt});
    }
  }
}

std::string line_of(const std::string& text, std::size_t number) {
  std::istringstream lines(text);
  std::string line;
  for (std::size_t i = 0; i < number; ++i) std::getline(lines, line);
  return line;
}

bool is_ascii(const std::string& line) {
  return std::ranges::all_of(line, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Throws toml::parse_error, whose message may quote the output of to_ascii().
toml::table parse(const std::string& text, const std::string& origin) {
  const std::optional<std::string> ascii = to_ascii(text);
  if (!ascii)
    throw usage_error("read config " + origin, "UTF-8", "bytes that are not",
                      "saving the file as UTF-8");
  return toml::parse(*ascii);
}

template <typename Number>
bool is_beyond(const std::string& digits) {
  Number number{};
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  return stop == end && error == std::errc::result_out_of_range;
}

/// Whether `text` is a decimal number too large for the integer or the float that it would be.
bool is_number_beyond_64_bits(std::string text) {
  std::erase(text, '_');
  if (text.starts_with('+')) text.erase(0, 1);
  return is_beyond<std::int64_t>(text) || is_beyond<double>(text);
}

/// Whether the parser's message is about such a number, which it names in quotes.
bool tells_of_number_beyond_64_bits(std::string_view description) {
  const std::size_t open = description.find('\''), close = description.rfind('\'');
  return open < close &&
         is_number_beyond_64_bits(std::string(description.substr(open + 1, close - open - 1)));
}

std::optional<toml::table> try_parse(const std::string& text) {
  try {
    return parse(text, text);
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

/// Whether a line is TOML, alone or inside an array.
bool is_toml(const std::string& line) {
  return try_parse(line) || try_parse("array = [\n" + line + "\n]");
}

Error of_another_format(const std::string& origin, const std::string& format) {
  return usage_error("read config " + origin,
                     "TOML, such as \"[run]\" and below it \"steps = 1000\"", format,
                     "accrue init FILES, which writes a config for your data in this form "
                     "(docs/guide/config.md has all keys)");
}

/// The error for syntax of other formats, for which the parser has no helpful message.
std::optional<Error> known_slip(const std::string& operation, const std::string& line) {
  constexpr std::size_t most_to_quote = 200;
  if (line.size() > most_to_quote) return std::nullopt;
  if (states_null(line))
    return usage_error(operation, "a value, as TOML has no null", line, "leaving the key out");
  const auto is_right = [](const std::optional<Correction>& correction) {
    return correction && is_toml(correction->line);
  };
  auto found = with_straight_quotes(line);
  if (!is_right(found)) found = with_equals_sign(line);
  if (!is_right(found)) found = corrected(line);
  if (!is_right(found)) found = with_closed_header(line);
  if (is_right(found)) return usage_error(operation, found->expected, line, found->line);
  if (!leaves_quote_open(line)) return std::nullopt;
  return usage_error(operation, "a quote at the end of a text", line + ", which has none",
                     "closing the quote on the same line");
}

/// "key-value pair: ..." for the parser's "Error while parsing key-value pair: ...".
std::string without_preamble(const std::string& description) {
  constexpr std::string_view preamble = "Error while parsing ";
  return description.starts_with(preamble) ? description.substr(preamble.size()) : description;
}

/// The name in "cannot redefine existing integer 'steps'", with its quotes; none if the parser's
/// message is another.
std::optional<std::string> stated_twice(const std::string& description) {
  const std::size_t at = description.find("cannot redefine existing");
  const std::size_t open = at == std::string::npos ? at : description.find('\'', at);
  if (open == std::string::npos) return std::nullopt;
  return description.substr(open, description.find('\'', open + 1) + 1 - open);
}

/// The error in `text`, which the parser got in the form of to_ascii().
Error malformed(const toml::parse_error& error, const std::string& text,
                const std::string& origin) {
  if (const auto format = other_format(text)) return of_another_format(origin, *format);
  if (is_prose(text)) return of_another_format(origin, "a text that is no config");
  const std::string operation = "read config " + position_text(origin, error.source().begin);
  const std::string description = from_ascii(error.description());
  if (tells_of_number_beyond_64_bits(description))
    return usage_error(operation, "numbers that 64 bits hold", "one beyond them: " + description,
                       "an integer up to 9.2e18 in size, a float up to 1.7e308");
  const std::string line = line_of(text, error.source().begin.line);
  if (const auto name = stated_twice(description))
    return usage_error(operation, "each key and each section once", *name + " a second time",
                       "leaving one of the two out");
  if (const auto slip = known_slip(operation, line)) return *slip;
  return usage_error(operation, "valid TOML",
                     "a mistake in its form (" + without_preamble(description) + ")" +
                         (is_ascii(line) ? "" : " (characters outside ASCII go in quotes)"),
                     "correcting that line");
}

Error malformed_override(const std::string& text, const std::string& what) {
  return usage_error("override " + text, what, "\"" + text + "\"",
                     "for example --optim.lr=1e-3 or --optim.schedule.warmup=100");
}

/// The error for an override of `path` whose value begins like TOML but is not TOML.
Error malformed_value(const std::string& path, const std::string& word) {
  const auto found = corrected_value(word);
  if (!found || !try_parse("value = " + found->line))
    return malformed_override(path + "=" + word, "a TOML value after the '='");
  return usage_error("override " + path + "=" + word, found->expected, word,
                     "'--" + path + "=" + found->line + "', quoted for the shell");
}

/// Whether `text` begins a TOML string, array or table, so that failing to parse is a mistake.
bool opens_toml(const std::string& text) {
  return !text.empty() && std::string_view("\"'[{").find(text.front()) != std::string_view::npos;
}

/// A shell passes typographic quotes on, as a part of the text.
bool opens_with_typographic_quote(const std::string& word) {
  const auto straight = with_straight_quotes(word);
  return straight && !straight->line.empty() && straight->line.front() != word.front() &&
         (straight->line.front() == '"' || straight->line.front() == '\'');
}

std::string without_quotes(const std::string& word) {
  std::string text = with_straight_quotes(word)->line;
  text.erase(0, text.find_first_not_of("\"'"));
  text.erase(text.find_last_not_of("\"'") + 1);
  return text;
}

bool is_key_path(const std::string& path) {
  const auto word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  bool expects_word = true;
  for (const char c : path) {
    if (!word(c) && (c != '.' || expects_word)) return false;
    expects_word = c == '.';
  }
  return !expects_word;
}

/// Whether a word begins like a Python dict with number keys, "{0: 4, 8: 8}", which a key may take
/// as a text.
bool is_map_by_numbers(const std::string& word) {
  const std::size_t digit = word.find_first_not_of("{ ");
  if (!word.starts_with('{') || digit == word.npos) return false;
  const std::size_t end = word.find_first_not_of("0123456789 ", digit);
  return end != word.npos && end > digit && word[end] == ':';
}

}  // namespace

std::vector<Entry> read_toml(const std::string& text, const std::string& origin) {
  std::vector<Entry> entries;
  try {
    flatten(parse(text, origin), "", origin, entries);
  } catch (const toml::parse_error& error) {
    throw malformed(error, text, origin);
  }
  return entries;
}

std::vector<Entry> read_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || !is_key_path(text.substr(0, equals)))
    throw malformed_override(text, "section.key=value");
  const std::string path = text.substr(0, equals);
  const std::string word = text.substr(equals + 1);
  if (word.empty()) throw malformed_override(text, "a value after the '='");

  std::vector<Entry> entries;
  // A line break would let one override state a second key.
  const bool one_line = word.find('\n') == std::string::npos;
  if (const auto parsed = one_line ? try_parse("value = " + word) : std::nullopt) {
    flatten(*parsed, "", text, entries);
  } else if (opens_with_typographic_quote(word)) {
    throw usage_error("override " + text, "straight quotes around a text, or none", word,
                      "--" + path + "=" + without_quotes(word));
  } else if (opens_toml(word) && !is_map_by_numbers(word)) {
    throw malformed_value(path, word);
  } else if (is_number_beyond_64_bits(word)) {
    const Value::Other number{"number that 64 bits do not hold (" + word + ")", true};
    entries.push_back({"value", Value{number}, "", std::nullopt});
  } else {
    entries.push_back({"value", Value{word}, "", std::nullopt});
  }
  for (Entry& entry : entries) {
    entry.path = path + entry.path.substr(std::string_view("value").size());
    entry.position = "--" + text;
    entry.bare = word;
  }
  return entries;
}

bool overrides_state(const std::vector<std::string>& overrides, const std::string& key) {
  return std::any_of(overrides.begin(), overrides.end(),
                     [&](const std::string& text) { return text.starts_with(key + "="); });
}

}  // namespace accrue::train
