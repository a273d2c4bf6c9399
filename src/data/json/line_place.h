#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accrue::data {

/// A value in a line that is a JSON object: that of a key, or one within it.
struct LinePlace {
  std::string key;
  std::optional<std::size_t> element = std::nullopt;  ///< of the list that is the key's value
  bool is_within = false;                             ///< it is a value inside that of the key
};

/// The column in which the value begins (for one within a value, other than an element, that
/// value), in bytes from 1; none if there is none. The text after the value need not be JSON.
std::optional<std::size_t> column_of(std::string_view line, const LinePlace& place);

/// A word at the place of a value.
struct StrayWord {
  std::string_view text;
  std::size_t column = 0;  ///< where it begins, in bytes from 1
};

/// The word around the byte at `column`; empty if no value could begin with it.
StrayWord stray_word(std::string_view line, std::size_t column);

/// Whether the value there is an integer that does not fit into 64 bits.
bool is_long_integer_at(std::string_view line, const LinePlace& place);
/// The same for a number in its source form.
bool is_long_integer(std::string_view number);

}  // namespace accrue::data
