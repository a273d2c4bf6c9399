#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accrue::data {

/// The columns of a table by their use.
struct TableColumns {
  std::vector<std::string> read, unread;
};

/// The columns that JSON lines have as keys are read. Alpaca's names, which other tables use for
/// something else, are read if "instruction" and "output" both exist; "system" also with
/// "conversations".
TableColumns columns_of_table(const std::vector<std::string>& names);

/// Whether a row may have no value in the column.
bool may_have_gaps(std::string_view column);

}  // namespace accrue::data
