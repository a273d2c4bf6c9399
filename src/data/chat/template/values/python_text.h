#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Operations of Python's str, on texts in UTF-8; positions and lengths count code points. White
/// space is that of str.isspace: Unicode's, and U+001C to U+001F.
namespace accrue::data::jinja {

std::size_t code_points(std::string_view text);
/// The byte at which code point `index` begins; the text's size after the last one.
std::size_t byte_of(std::string_view text, std::size_t index);
/// One text for each code point.
std::vector<std::string> characters_of(std::string_view text);

std::size_t white_space_length(std::string_view text);  ///< at the start, in bytes
std::string_view stripped_left(std::string_view text);
std::string_view stripped_right(std::string_view text);
/// Without the code points of `characters` at its ends; without white space if it is not set.
std::string_view stripped(std::string_view text, std::optional<std::string_view> characters,
                          bool left, bool right);

/// The first offset of `part` at or after `from`, in bytes, in time linear in both.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from);
/// The last offset of `part`, in the same way.
std::size_t find_last_text(std::string_view text, std::string_view part);
/// The number of its occurrences that do not overlap.
std::size_t count_text(std::string_view text, std::string_view part);
/// With at most `most` occurrences replaced; all if it is negative.
std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     std::int64_t most);
/// Cut at white space, or at `separator`, which is not empty; at most `most` cuts if it is not
/// negative, counted from the end if `from_end`.
std::vector<std::string> split_text(std::string_view text,
                                    std::optional<std::string_view> separator, std::int64_t most,
                                    bool from_end);
std::vector<std::string> split_lines(std::string_view text, bool keeps_ends);

std::string upper_text(std::string_view text);
std::string lower_text(std::string_view text);
std::string title_text(std::string_view text);
std::string capitalized(std::string_view text);
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);
/// Whether every character is of the kind, and there is at least one.
bool are_digits(std::string_view text);
bool are_letters(std::string_view text);
bool are_letters_or_digits(std::string_view text);
bool is_white_space(std::string_view text);
/// Whether repr shows it unescaped.
bool is_printable(char32_t code_point);

}  // namespace accrue::data::jinja
