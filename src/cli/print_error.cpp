#include "cli/print_error.h"

#include <iostream>

namespace accrue::cli {

void print_error(const std::string& message) {
  std::string text = "error: ";
  for (const char c : message) text += c == '\n' ? "\n  " : std::string(1, c);
  std::cerr << text + '\n' << std::flush;
}

}  // namespace accrue::cli
