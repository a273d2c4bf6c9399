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
  /// So many names are kept: a damaged file must not fill the memory with columns.
  static constexpr std::size_t most_columns = 1000;

  /// Begins a row; what was put since the last one that was kept is forgotten.
  void begin_row();
  void put(std::string_view name, double value);
  /// Keeps the row as that of `step`, in place of it and of all after it.
  /// Returns how many rows went.
  std::size_t keep_row(std::int64_t step);
  /// Whether the last row that was kept is that of `step`, and this one has no such name.
  bool adds_nothing_to(std::int64_t step, std::string_view name) const;
  /// Whether a name was left out, as there were too many.
  bool is_full() const { return is_full_; }
  /// The table; nothing may be put afterwards.
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
