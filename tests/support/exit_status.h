#pragma once

#include <iostream>

#include "accrue/core/error.h"

namespace accrue::testing {

/// The exit status of a program of the tests, as on the command line: the result of `run`, or an
/// Error's code, after its message on stderr.
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
