#pragma once

#include <filesystem>
#include <string>

#include "data/text/text_cache.h"

namespace accrue::data {

/// Writes a line of JSON for each row of a Parquet file, in order, with the columns that JSON lines
/// are read for: text, prompt, completion, input_ids, labels, messages, tools, chosen, rejected,
/// weight. Lists and structs (messages) become arrays and objects, in which fields without a value
/// are left out, as are `tools` and `weight` without one. Memory is bounded by a batch of rows and
/// one page of each column. Throws a usage Error, its operation being `what`, that names the file
/// where it is cut or no Parquet file, has no such column, or a row has no value in another of
/// them; and always where accrue was built without Arrow.
void write_rows_as_lines(const std::filesystem::path& table, const WriteBytes& write,
                         const std::string& what);

}  // namespace accrue::data
