#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "observe/history/run_history.h"

namespace accrue::observe {

/// Collects rows of named numbers as a StepTable. Rows mostly have the same names in the same
/// order, and then each name costs one comparison.
class StepRows {
 public:
  /// The most names that are kept: a damaged file must not fill the memory with columns.
  static constexpr std::size_t most_columns = 1000;

  /// Begins a row; values put since the last kept row are dropped.
  void begin_row();
  void put(std::string_view name, double value);
  /// Keeps the row for `step`, replacing that row and all after it. Returns how many rows were
  /// removed.
  std::size_t keep_row(std::int64_t step);
  /// Whether the last kept row is that of `step`, and this one does not have that name.
  bool adds_nothing_to(std::int64_t step, std::string_view name) const;
  /// Whether a name was left out because there were too many.
  bool is_full() const { return is_full_; }
  /// The table; do not put anything afterwards.
  StepTable take();

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct Column {
    std::string name;
    std::vector<double> values;
  };
  std::size_t column_of(std::string_view name);
  std::size_t find_or_add(std::string_view name);

  std::vector<std::int64_t> steps_;
  std::vector<Column> columns_;
  std::unordered_map<std::string, std::size_t> index_;  ///< of columns, by name
  std::vector<std::size_t> expected_;                   ///< columns in the order of the last row
  std::vector<std::pair<std::size_t, double>> row_;     ///< column and value
  std::size_t position_ = 0;                            ///< names seen of this row
  bool is_full_ = false;
};

}  // namespace accrue::observe
