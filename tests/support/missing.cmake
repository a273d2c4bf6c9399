# A test in place of those that this build lacks: cmake -DREASON=... -P missing.cmake. As tests/support/skip.h has it.
if(NOT "$ENV{ACCRUE_REQUIRE_ALL}" STREQUAL "")
  message(FATAL_ERROR "${REASON}, and ACCRUE_REQUIRE_ALL is set")
endif()
message("skipped: ${REASON}")
