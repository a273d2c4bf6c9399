#pragma once

#include <filesystem>
#include <string_view>

#include "train/limits/limit_state.h"

namespace accrue::train {

/// The number that a text begins with, behind spaces; space, a percent sign or the end follows it.
std::optional<double> number_at_start(std::string_view text);

/// Reads a limit's file, at most its first 4 KiB, and never waits for it: what is no regular file,
/// such as a pipe, is not read.
LimitReading read_limit_file(const Limit& limit);

}  // namespace accrue::train
