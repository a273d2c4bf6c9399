#include "cli/process/print_error.h"

#include <unistd.h>

#include <cstddef>
#include <iostream>

#include "cli/help/error_page.h"
#include "observe/terminal.h"

namespace accrue::cli {

void print_error(const std::string& message) {
  std::string text = "error: ";
  for (const char c : message) text += c == '\n' ? "\n  " : std::string(1, c);
  std::cerr << text + '\n' << std::flush;
}

void print_error(const Error& error) {
  if (::isatty(STDERR_FILENO) != 1) return print_error(std::string(error.what()));
  const auto columns = static_cast<std::size_t>(observe::terminal_size(STDERR_FILENO).columns);
  std::cerr << error_page(error, columns) << std::flush;
}

}  // namespace accrue::cli
