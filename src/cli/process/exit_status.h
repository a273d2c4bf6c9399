#pragma once

#include <exception>

#include "accrue/core/error.h"

namespace accrue::cli {

/// The exit status of a verb that checks something: 0 if it passed, else that of an Error of the
/// kind `otherwise`.
int exit_status_of_check(bool passed, Error::Kind otherwise);

/// The exit status of a program that `error` ended. If the program `has_budget`, libtorch's lack of
/// memory is a refused Error.
int exit_status_of_failure(const std::exception& error, bool has_budget);

}  // namespace accrue::cli
