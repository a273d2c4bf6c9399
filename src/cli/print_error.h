#pragma once

#include <string>

namespace accrue::cli {

/// Prints "error: " and a message on stderr, in one write: ranks share a terminal. Names from files
/// may have line feeds: what follows one is set in, so that no line of it passes for one of this
/// program's.
void print_error(const std::string& message);

}  // namespace accrue::cli
