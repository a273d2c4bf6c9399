#include "accrue/core/error.h"

#include <utility>

namespace accrue {
namespace {

std::string compose(const std::string& operation, const std::string& expected,
                    const std::string& received, const std::string& suggestion) {
  std::string text = operation + ": expected " + expected + ", received " + received;
  if (!suggestion.empty()) text += "; try " + suggestion;
  return text;
}

}  // namespace

Error::Error(Kind kind, std::string operation, std::string expected, std::string received,
             std::string suggestion)
    : std::runtime_error(compose(operation, expected, received, suggestion)),
      kind_(kind),
      operation_(std::move(operation)),
      expected_(std::move(expected)),
      received_(std::move(received)),
      suggestion_(std::move(suggestion)) {}

int Error::exit_code(Kind kind) noexcept {
  switch (kind) {
    case Kind::usage:
      return 2;
    case Kind::refused:
      return 3;
    case Kind::runtime:
      break;
  }
  return 1;
}

Error usage_error(std::string_view operation, std::string_view expected, std::string_view received,
                  std::string_view suggestion) {
  return {Error::Kind::usage, std::string(operation), std::string(expected), std::string(received),
          std::string(suggestion)};
}

Error runtime_error(std::string_view operation, std::string_view expected,
                    std::string_view received, std::string_view suggestion) {
  return {Error::Kind::runtime, std::string(operation), std::string(expected),
          std::string(received), std::string(suggestion)};
}

}  // namespace accrue
