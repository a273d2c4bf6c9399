#include "cli/output/text_table.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "core/printable.h"
#include "observe/terminal.h"

namespace accrue::cli {
namespace {

constexpr std::size_t gap = 2;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; }

/// Characters of UTF-8, each counted as one column.
std::size_t width_of(const std::string& text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues_character));
}

/// Dots and the end of a text, in `width` columns.
std::string shortened(const std::string& text, std::size_t width) {
  const std::string dots = "...";
  if (width_of(text) <= width) return text;
  std::size_t begin = 0;
  std::size_t left = width_of(text) + dots.size();
  for (; begin < text.size() && (left > width || continues_character(text[begin])); ++begin)
    if (!continues_character(text[begin])) --left;
  return dots + text.substr(begin);
}

std::string padded(const std::string& text, std::size_t width, TextTable::Side side) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return side == TextTable::Side::left ? text + space : space + text;
}

std::size_t line_width(const std::vector<std::size_t>& shown,
                       const std::vector<std::size_t>& widths) {
  std::size_t sum = 0;
  for (const std::size_t column : shown) sum += widths[column] + gap;
  return sum - gap;
}

/// Narrows a column by the excess of `line` over `width`, as long as it stays
/// useful.
void narrow(std::size_t& column, std::size_t line, std::size_t width) {
  constexpr std::size_t least = 8;
  if (line > width && column > least) column -= std::min(line - width, column - least);
}

}  // namespace

void TextTable::add_row(Row cells) {
  for (std::string& cell : cells) cell = printable_line(cell);
  rows_.push_back(std::move(cells));
}

TextTable::Row TextTable::titles() const {
  Row row;
  for (const Column& column : columns_) row.push_back(column.title);
  return row;
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    widths.push_back(width_of(columns_[column].title));
    for (const Row& row : rows_) widths.back() = std::max(widths.back(), width_of(row[column]));
  }
  return widths;
}

void TextTable::leave_out(std::vector<std::size_t>& shown, const std::vector<std::size_t>& widths,
                          std::size_t width) const {
  const auto rank = [this](std::size_t column) { return columns_[column].rank; };
  while (line_width(shown, widths) > width) {
    const auto last = std::ranges::max_element(shown, {}, rank);
    if (rank(*last) == 0) return;
    shown.erase(last);
  }
}

std::vector<std::string> TextTable::lines(std::size_t width) const {
  std::vector<std::size_t> room = widths();
  std::vector<std::size_t> shown(columns_.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  leave_out(shown, room, width);
  narrow(room.front(), line_width(shown, room), width);

  std::vector<Row> rows{titles()};
  rows.insert(rows.end(), rows_.begin(), rows_.end());
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (const std::size_t column : shown)
      line += (line.empty() ? "" : std::string(gap, ' ')) +
              padded(shortened(row[column], room[column]), room[column], columns_[column].side);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::size_t output_width() {
  if (::isatty(STDOUT_FILENO) != 1) return TextTable::any_width;
  return static_cast<std::size_t>(observe::terminal_size(STDOUT_FILENO).columns);
}

std::size_t page_width() {
  constexpr std::size_t widest = 100;
  return std::min(output_width(), widest);
}

}  // namespace accrue::cli
