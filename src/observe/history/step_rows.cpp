#include "observe/history/step_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace accrue::observe {
namespace {

constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void StepRows::begin_row() {
  row_.clear();
  position_ = 0;
}

void StepRows::put(std::string_view name, double value) {
  const std::size_t column = column_of(name);
  if (column != none) row_.emplace_back(column, value);
}

std::size_t StepRows::column_of(std::string_view name) {
  if (position_ == expected_.size()) expected_.push_back(none);
  std::size_t& expected = expected_[position_++];
  if (expected == none || columns_[expected].name != name) expected = find_or_add(name);
  return expected;
}

std::size_t StepRows::find_or_add(std::string_view name) {
  const auto found = index_.find(std::string(name));
  if (found != index_.end()) return found->second;
  if (columns_.size() == most_columns) {
    is_full_ = true;
    return none;
  }
  columns_.push_back({std::string(name), std::vector<double>(steps_.size(), no_value)});
  index_.emplace(name, columns_.size() - 1);
  return columns_.size() - 1;
}

std::size_t StepRows::keep_row(std::int64_t step) {
  const auto place = std::ranges::lower_bound(steps_, step);
  const auto gone = static_cast<std::size_t>(steps_.end() - place);
  steps_.erase(place, steps_.end());
  steps_.push_back(step);
  for (Column& column : columns_) {
    column.values.resize(steps_.size() - 1);
    column.values.push_back(no_value);
  }
  for (const auto& [column, value] : row_) columns_[column].values.back() = value;
  return gone;
}

bool StepRows::adds_nothing_to(std::int64_t step, std::string_view name) const {
  const bool has_name = std::ranges::any_of(
      row_, [&](const auto& entry) { return columns_[entry.first].name == name; });
  return !steps_.empty() && steps_.back() == step && !has_name;
}

StepTable StepRows::take() {
  StepTable table{.steps = std::move(steps_), .columns = {}};
  for (Column& column : columns_)
    if (has_value(column.values))
      table.columns.emplace(std::move(column.name), std::move(column.values));
  return table;
}

}  // namespace accrue::observe
