#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accrue::data {

/// The columns of a table by their use.
struct TableColumns {
  std::vector<std::string> read, unread;
};

/// Read are the columns that JSON lines have as keys. Names of Alpaca's, which other tables have
/// for something else, are read if "instruction" and "output" are both there, and "text" is not
/// read then; "system" also beside "conversations".
TableColumns columns_of_table(const std::vector<std::string>& names);

/// Whether a row may have no value in the column.
bool may_have_gaps(std::string_view column);

}  // namespace accrue::data
