#include "accrue/core/error.h"
#include "data/parquet/parquet_rows.h"

namespace accrue::data {

void write_rows_as_lines(const std::filesystem::path& table, const WriteBytes& /*write*/,
                         const std::string& what) {
  throw usage_error(what, "an accrue that was built with Parquet", table.string(),
                    "make build PARQUET=1 (docs/guide/install.md), or the rows as JSON lines "
                    "(.jsonl)");
}

std::vector<std::string> unread_columns(const std::filesystem::path& /*table*/,
                                        const std::string& /*what*/) {
  return {};
}

}  // namespace accrue::data
