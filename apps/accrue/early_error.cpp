#include "early_error.h"

#include <unistd.h>

#include <array>
#include <cstddef>

namespace accrue::cli {
namespace {

constexpr int kUsage = 2;

}  // namespace

void write_early(const char* text) {
  std::size_t size = 0;
  while (text[size] != '\0') ++size;
  (void)!::write(STDERR_FILENO, text, size);
}

void write_early_mebibytes(std::uint64_t bytes) {
  std::array<char, 24> digits{};
  std::size_t first = digits.size() - 1;  // the last one ends the text
  std::uint64_t left = bytes >> 20;
  do digits[--first] = static_cast<char>('0' + left % 10);
  while ((left /= 10) > 0);
  write_early(&digits[first]);
  write_early(" MiB");
}

void end_early() { ::_exit(kUsage); }

}  // namespace accrue::cli
