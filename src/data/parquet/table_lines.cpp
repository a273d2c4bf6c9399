#include "data/parquet/table_lines.h"

#include <utility>

#include "data/files/file_pool.h"
#include "data/parquet/parquet_rows.h"
#include "data/text/samples/unread_names.h"
#include "data/text/tokens/text_tokens.h"

namespace accrue::data {
namespace {

/// Changes whenever the same rows become other lines.
constexpr const char* lines_form = "rows 2";

/// With the table's name, for errors in a line.
std::string name_of_lines(const std::filesystem::path& table, const std::string& what) {
  constexpr std::size_t longest = 100;
  return digest_of(FilePool({table}, what), lines_form) + "." +
         table.filename().string().substr(0, longest) + ".jsonl";
}

/// A sentence for each table that has such columns; if there are many, for the first ones.
std::vector<std::string> notes_on_columns(const std::vector<std::filesystem::path>& tables,
                                          const std::string& what) {
  constexpr std::size_t most_tables = 8;
  std::vector<std::string> notes;
  for (const std::filesystem::path& table : tables) {
    if (notes.size() == most_tables) {
      notes.emplace_back("more tables may have columns that are not read");
      break;
    }
    const std::vector<std::string> unread = unread_columns(table, what);
    if (!unread.empty())
      notes.push_back(table.string() + ": columns that are not read: " + unread_in_words(unread));
  }
  return notes;
}

}  // namespace

TableLines lines_of_tables(const std::vector<std::filesystem::path>& tables,
                           const std::filesystem::path& cache, const std::string& what) {
  auto kept = std::make_shared<TextCache>(cache);
  TableLines lines;
  for (const std::filesystem::path& table : tables)
    lines.files.push_back(kept->file(name_of_lines(table, what), [&](const WriteBytes& write) {
      write_rows_as_lines(table, write, what);
    }));
  lines.cache = std::move(kept);
  lines.notes = notes_on_columns(tables, what);
  return lines;
}

}  // namespace accrue::data
