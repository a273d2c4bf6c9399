#pragma once

#include <string>

#include "cli/output/print_text.h"
#include "core/printable.h"

namespace accrue::cli {

/// A line of `train`'s and `plan`'s description of a run.
inline void print_row(const char* name, const std::string& value) {
  print_text("%-16s%s\n", name, printable_line(value).c_str());
}

}  // namespace accrue::cli
