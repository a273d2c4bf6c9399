#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace accrue::testing {

/// If this is set and not empty (as in `make test`), a missing part of a build is a failure.
inline constexpr const char* require_all_variable = "ACCRUE_REQUIRE_ALL";

/// A part that a test needs is missing in this build or set-up: the test is skipped, or fails if
/// everything is required. To be returned from a test's body: `return missing_in_build("oneDNN");`
inline void missing_in_build(std::string_view reason) {
  const char* required = std::getenv(require_all_variable);
  if (required != nullptr && *required != '\0')
    FAIL() << reason << ", and " << require_all_variable << " is set";
  GTEST_SKIP() << reason;
}

/// The machine, or the kind of build, cannot support the test, whatever is installed: the test is
/// skipped. To be returned from a test's body.
inline void not_possible_here(std::string_view reason) { GTEST_SKIP() << reason; }

}  // namespace accrue::testing
