#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accrue::data {

/// A value in a line that is an object of JSON: that of a key, or one within it.
struct LinePlace {
  std::string key;
  std::optional<std::size_t> element = std::nullopt;  ///< of the list that the key's value is
  bool is_within = false;                             ///< it is a value within that of the key
};

/// If the value begins (of one within a value, but for an element, that value), in bytes from 1;
/// none if the line has no such value. What is behind the value need not be JSON.
std::optional<std::size_t> column_of(std::string_view line, const LinePlace& place);

/// A word that stands in the place of a value.
struct StrayWord {
  std::string_view text;
  std::size_t column = 0;  ///< where it begins, in bytes from 1
};

/// The word around the byte at `column`; empty if no value could begin with it.
StrayWord stray_word(std::string_view line, std::size_t column);

/// Whether an integer stands there that 64 bits do not hold.
bool is_long_integer_at(std::string_view line, const LinePlace& place);
/// The same of a number as it is written.
bool is_long_integer(std::string_view number);

}  // namespace accrue::data
