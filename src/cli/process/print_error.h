#pragma once

#include <string>

#include "accrue/core/error.h"

namespace accrue::cli {

/// Prints "error: " and a message on stderr, in one write: ranks share a terminal. Names from files
/// may have line feeds: the text after one is indented, so that no line of it looks like one of
/// this program's.
void print_error(const std::string& message);

/// Prints an error on stderr: on a terminal by its parts, a line for each (error_page()), else as
/// one line, for programs and logs.
void print_error(const Error& error);

}  // namespace accrue::cli
