#include "core/digits.h"

#include <array>
#include <charconv>

namespace accrue {

std::string in_digits(double number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

}  // namespace accrue
