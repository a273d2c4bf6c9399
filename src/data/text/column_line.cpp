#include "data/text/column_line.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace accrue::data {
namespace {

using nlohmann::json;

constexpr double most_exact = 9007199254740992;  // 2^53
constexpr std::size_t most_dimensions = 8;

LineProblem problem_of(const std::string& name, const json& field) {
  return {
      "numbers, or lists of numbers of one length within a list, as \"" + name + '"',
      field.is_array() ? "lists of another form, or empty ones" : std::string(field.type_name()),
      "lines like {\"" + name + "\": [1, 2, 3]}"};
}

/// What the first elements of lists within lists tell.
std::vector<std::int64_t> shape_of(const json& node) {
  std::vector<std::int64_t> shape;
  for (const json* inner = &node; inner->is_array(); inner = &inner->front()) {
    shape.push_back(static_cast<std::int64_t>(inner->size()));
    if (inner->empty() || shape.size() > most_dimensions) break;
  }
  return shape;
}

bool add_number(const json& node, ColumnValue& value) {
  if (!node.is_number() && !node.is_boolean()) return false;
  const double number = node.is_boolean() ? (node.get<bool>() ? 1 : 0) : node.get<double>();
  value.is_real = value.is_real || node.is_number_float();
  value.numbers.push_back(number);
  return std::isfinite(static_cast<float>(number)) &&
         (node.is_number_float() || std::abs(number) < most_exact);
}

/// Adds what is below `node`, which has to have the shape from `depth` on.
bool add_numbers(const json& node, std::size_t depth, ColumnValue& value) {
  if (depth == value.shape.size()) return add_number(node, value);
  if (!node.is_array() || static_cast<std::int64_t>(node.size()) != value.shape[depth])
    return false;
  for (const json& inner : node)
    if (!add_numbers(inner, depth + 1, value)) return false;
  return !node.empty();
}

}  // namespace

std::optional<LineProblem> parse_columns(std::string_view line,
                                         const std::vector<std::string>& names,
                                         std::vector<ColumnValue>& values) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return LineProblem{"a JSON object",
                       object.is_discarded() ? "text that is none" : "another value",
                       "an object per line, in UTF-8"};
  values.assign(names.size(), {});
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto field = object.find(names[i]);
    values[i].is_there = field != object.end() && !field->is_null();
    if (!values[i].is_there) continue;
    values[i].shape = shape_of(*field);
    if (values[i].shape.size() > most_dimensions || !add_numbers(*field, 0, values[i]))
      return problem_of(names[i], *field);
  }
  return std::nullopt;
}

}  // namespace accrue::data
