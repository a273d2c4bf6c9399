// Writes a Parquet file as the lines on which it is trained: parquet_golden FILE LINES.
//
// Runs requests (support/requests.h).
#include "core/atomic_file.h"
#include "data/parquet/parquet_rows.h"
#include "support/requests.h"

int main(int count, char** words) {
  return accrue::testing::run_requests(count, words, [](const std::vector<std::string>& files) {
    accrue::AtomicFile lines(files.at(1));
    accrue::data::write_rows_as_lines(
        files.at(0), [&](std::string_view bytes) { lines.write(bytes); }, "data.train");
    lines.commit();
  });
}
