// Writes a Parquet file as the lines on which it is trained: parquet_golden FILE LINES.
#include <iostream>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "data/parquet/parquet_rows.h"

int main(int count, char** words) {
  if (count != 3) return 64;
  try {
    accrue::AtomicFile lines(words[2]);
    accrue::data::write_rows_as_lines(
        words[1], [&](std::string_view bytes) { lines.write(bytes); }, "data.train");
    lines.commit();
  } catch (const accrue::Error& error) {
    std::cerr << error.what() << "\n";
    return error.exit_code();
  }
  return 0;
}
