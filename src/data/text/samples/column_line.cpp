#include "data/text/samples/column_line.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/json/line_json.h"
#include "data/json/line_syntax.h"

namespace accrue::data {
namespace {

using ColumnJson = nlohmann::ordered_json;

constexpr double most_exact = 9007199254740992;  // 2^53
constexpr std::size_t most_dimensions = 8;

LineProblem problem_of(const std::string& name, std::string received) {
  return {"numbers, or lists of numbers of one length within a list, as \"" + name + '"',
          std::move(received), "lines like {\"" + name + "\": [1, 2, 3]}"};
}

std::string form_in_words(const ColumnJson& field) {
  if (field.is_array()) return "lists of another form, empty ones, or integers beyond 2^53";
  return field.is_number() ? "a number beyond 2^53, or beyond fp32" : field.type_name();
}

/// The shape given by the first elements of nested lists.
std::vector<std::int64_t> shape_of(const ColumnJson& node) {
  std::vector<std::int64_t> shape;
  for (const ColumnJson* inner = &node; inner->is_array(); inner = &inner->front()) {
    shape.push_back(static_cast<std::int64_t>(inner->size()));
    if (inner->empty() || shape.size() > most_dimensions) break;
  }
  return shape;
}

bool add_number(const ColumnJson& node, ColumnValue& value) {
  if (!node.is_number() && !node.is_boolean()) return false;
  const double number = node.is_boolean() ? (node.get<bool>() ? 1 : 0) : node.get<double>();
  value.is_real = value.is_real || node.is_number_float();
  value.numbers.push_back(number);
  return std::isfinite(static_cast<float>(number)) &&
         (node.is_number_float() || std::abs(number) < most_exact);
}

/// Adds the values below `node`, which must have the shape from `depth` on.
bool add_numbers(const ColumnJson& node, std::size_t depth, ColumnValue& value) {
  if (depth == value.shape.size()) return add_number(node, value);
  if (!node.is_array() || static_cast<std::int64_t>(node.size()) != value.shape[depth])
    return false;
  for (const ColumnJson& inner : node)
    if (!add_numbers(inner, depth + 1, value)) return false;
  return !node.empty();
}

}  // namespace

std::optional<LineProblem> parse_columns(std::string_view line,
                                         const std::vector<std::string>& names,
                                         std::vector<ColumnValue>& values) {
  LineJson read = read_line_json(line);
  if (read.problem) return problem_in_words(std::move(*read.problem), line);
  const ColumnJson& object = read.value;
  if (!object.is_object())
    return LineProblem{"a JSON object", "another value", "an object per line, in UTF-8"};
  values.assign(names.size(), {});
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto field = object.find(names[i]);
    values[i].is_there = field != object.end() && !field->is_null();
    if (!values[i].is_there) continue;
    const LinePlace place{.key = names[i]};
    if (field->is_number_float() && is_long_integer_at(line, place))
      return at_place(problem_of(names[i], subject_of(place) + "an integer of more than 64 bits"),
                      line, place);
    values[i].shape = shape_of(*field);
    if (values[i].shape.size() > most_dimensions || !add_numbers(*field, 0, values[i]))
      return at_place(problem_of(names[i], form_in_words(*field)), line, place);
  }
  return std::nullopt;
}

}  // namespace accrue::data
