#include "cli/output/print_text.h"

#include <cstdarg>
#include <cstdio>
#include <iostream>
#include <string>

namespace accrue::cli {

void print_text(const char* format, ...) {
  std::va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(static_cast<std::size_t>(size < 0 ? 0 : size) + 1, '\0');  // with the end mark
  std::vsnprintf(text.data(), text.size(), format, again);
  va_end(again);
  va_end(arguments);
  text.pop_back();
  std::cout << text;
}

}  // namespace accrue::cli
