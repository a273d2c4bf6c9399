#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace accrue::cli {

/// A table of text for people: columns side by side, two spaces between them.
class TextTable {
 public:
  enum class Side { left, right };
  struct Column {
    std::string title;
    Side side = Side::left;
    int rank = 0;  ///< if space is short, the column with the highest goes first; 0 stays
  };
  static constexpr std::size_t any_width = static_cast<std::size_t>(-1);

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell for each column, made printable by printable_line().
  void add_row(std::vector<std::string> cells);

  /// The titles and the rows, without line breaks and trailing spaces. If they are wider than
  /// `width`, columns are left out, and then the front of the first column's cells.
  std::vector<std::string> lines(std::size_t width) const;

 private:
  using Row = std::vector<std::string>;

  Row titles() const;
  std::vector<std::size_t> widths() const;
  void leave_out(std::vector<std::size_t>& shown, const std::vector<std::size_t>& widths,
                 std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

/// Columns of the terminal at stdout; any width if it is not a terminal.
std::size_t output_width();
/// The same for running text, which does not read well in lines of more than 100 characters.
std::size_t page_width();

}  // namespace accrue::cli
