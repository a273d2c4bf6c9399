#pragma once

#include <cstdint>

namespace accrue::cli {

/// A message on standard error before libc is initialised, in parts.
void write_early(const char* text);
/// "500 MiB", rounded down.
void write_early_mebibytes(std::uint64_t bytes);
/// Ends the process with the status of a usage error.
[[noreturn]] void end_early();

}  // namespace accrue::cli
