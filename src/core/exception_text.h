#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace accrue {

/// The message of an exception; for libtorch's without the stack.
inline std::string text_of(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch == nullptr ? error.what() : of_torch->what_without_backtrace();
}

}  // namespace accrue
