#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/samples/json_sample.h"

namespace accrue::data {

/// The numbers of one field of a line.
struct ColumnValue {
  std::vector<std::int64_t> shape;  ///< empty: one number; else nested lists
  std::vector<double> numbers;      ///< in row-major order; integers are below 2^53
  bool is_real = false;             ///< some number has a fraction or an exponent
  bool is_there = true;

  std::int64_t length() const { return shape.empty() ? 1 : shape.front(); }
};

/// Reads the fields `names` of a line into `values`, in their order; a field that the line does not
/// have is marked as missing, for the caller to judge. Returns the problem if they are not numbers.
std::optional<LineProblem> parse_columns(std::string_view line,
                                         const std::vector<std::string>& names,
                                         std::vector<ColumnValue>& values);

}  // namespace accrue::data
