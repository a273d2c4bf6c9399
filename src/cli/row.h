#pragma once

#include <cstdio>
#include <string>

namespace accrue::cli {

/// A line of what `train` and `plan` say about a run.
inline void print_row(const char* name, const std::string& value) {
  std::printf("%-16s%s\n", name, value.c_str());
}

}  // namespace accrue::cli
