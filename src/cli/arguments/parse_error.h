#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <limits>
#include <string>

#include "accrue/core/error.h"
#include "cli/arguments/commands.h"

namespace accrue::cli {

/// Accepts integers from `least` to `most`. usage_error_of() reports the others.
CLI::Validator integer_in(std::int64_t least,
                          std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// The usage Error for what the parser refused in `typed`, of the program of this name.
Error usage_error_of(const CLI::ParseError& refusal, const CLI::App& app, const Arguments& typed,
                     const std::string& program);

}  // namespace accrue::cli
