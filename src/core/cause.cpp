#include "core/cause.h"

#include <string_view>

namespace accrue {

std::string cause_of(const std::exception& error) {
  const std::string text = error.what();
  constexpr std::string_view script_error = "RuntimeError: ";
  const std::size_t found = text.rfind(script_error);
  const std::size_t begin = found == std::string::npos ? 0 : found + script_error.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace accrue
