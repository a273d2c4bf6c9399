#include "core/digits.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace accrue {

std::string in_digits(double number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

std::string in_four_digits(double number) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.4g", number);
  return text.data();
}

}  // namespace accrue
