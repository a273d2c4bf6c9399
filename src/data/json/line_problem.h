#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/json/line_place.h"

namespace accrue::data {

/// The problem of a line: the parts of an Error.
struct LineProblem {
  std::string expected;
  std::string received;
  std::string suggestion;
};

/// `problem` with the column of the value in `line` that causes it.
LineProblem at_place(LineProblem problem, std::string_view line, const LinePlace& place);

/// A JSON parser's problem with `line`, which is not JSON at `column` (from 1). `message` is that
/// of nlohmann's exception. `place` is the value being read; none if that is not a key's value. A
/// word in place of a value (NaN, None) is named.
LineProblem not_json(std::string_view line, std::size_t column, const std::string& message,
                     const std::optional<LinePlace>& place);

/// `"weight" is ` or `"input_ids" holds `: the beginning of a sentence about a value.
std::string subject_of(const LinePlace& place);

/// At most `longest` bytes of a text, in whole characters, for people.
std::string shortened(std::string_view text, std::size_t longest = 60);

}  // namespace accrue::data
