#pragma once

#include <string>

#include "accrue/core/error.h"

namespace accrue::cli {

/// Prints "error: " and a message on stderr, in one write: ranks share a terminal. Names from files
/// may have line feeds: what follows one is set in, so that no line of it passes for one of this
/// program's.
void print_error(const std::string& message);

/// Prints an error on stderr: on a terminal by its parts, a line for each (error_page()), else as
/// one line, which programs and logs read.
void print_error(const Error& error);

}  // namespace accrue::cli
