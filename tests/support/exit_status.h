#pragma once

#include <iostream>

#include "accrue/core/error.h"

namespace accrue::testing {

/// What a program of the tests exits with, as the command line does: what `run` returns, or an
/// Error's code, behind its message on stderr.
template <class Run>
int exit_status_of(const Run& run) {
  try {
    return run();
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return error.exit_code();
  }
}

}  // namespace accrue::testing
