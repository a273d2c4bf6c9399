#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/text/tokens/text_cache.h"

namespace accrue::data {

/// Writes a line of JSON for each row of a Parquet file, in order, with the columns that JSON lines
/// use as keys (columns_of_table()). Lists and structs (messages) become arrays and objects, in
/// which fields without a value are left out, as are columns that may_have_gaps(). Memory is
/// bounded by a batch of rows and one page of each column. Throws a usage Error of the operation
/// `what` that names the file if it is truncated or not a Parquet file, has no such column, or a
/// row has no value in another of them; and always if accrue was built without Arrow.
void write_rows_as_lines(const std::filesystem::path& table, const WriteBytes& write,
                         const std::string& what);

/// The columns of a Parquet file that are not read, in their order. Throws as write_rows_as_lines()
/// does for the file; without Arrow, if no table is read, there are none.
std::vector<std::string> unread_columns(const std::filesystem::path& table,
                                        const std::string& what);

}  // namespace accrue::data
