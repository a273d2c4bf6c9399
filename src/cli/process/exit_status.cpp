#include "cli/process/exit_status.h"

#include <c10/util/Exception.h>

namespace accrue::cli {
namespace {

Error::Kind kind_of(const std::exception& error, bool has_budget) {
  if (const auto* stated = dynamic_cast<const Error*>(&error)) return stated->kind();
  const bool lacks_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr;
  return lacks_memory && has_budget ? Error::Kind::refused : Error::Kind::runtime;
}

}  // namespace

int exit_status_of_check(bool passed, Error::Kind otherwise) {
  return passed ? 0 : Error::exit_code(otherwise);
}

int exit_status_of_failure(const std::exception& error, bool has_budget) {
  return Error::exit_code(kind_of(error, has_budget));
}

}  // namespace accrue::cli
