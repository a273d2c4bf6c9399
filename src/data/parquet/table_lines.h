#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/text/tokens/text_cache.h"

namespace accrue::data {

/// The rows of Parquet files as files of JSON lines.
struct TableLines {
  std::vector<FileHead> files;             ///< one for each table, a line for each row
  std::shared_ptr<const TextCache> cache;  ///< owns the files while they are read
  std::vector<std::string> notes;          ///< on columns that are not read: a sentence a table
};

/// Rows in columns cannot be drawn one by one: they are written as lines once, and saved in `cache`
/// by a digest of each table; empty: in temporary files. Throws as write_rows_as_lines() does.
TableLines lines_of_tables(const std::vector<std::filesystem::path>& tables,
                           const std::filesystem::path& cache, const std::string& what);

}  // namespace accrue::data
