#pragma once

#include <filesystem>
#include <string_view>

#include "train/limits/limit_state.h"

namespace accrue::train {

/// The number at the start of a text, after spaces; a space, a percent sign or the end follows it.
std::optional<double> number_at_start(std::string_view text);

/// Reads a limit's file, at most its first 4 KiB, without waiting: a file that is not regular, such
/// as a pipe, is not read.
LimitReading read_limit_file(const Limit& limit);

}  // namespace accrue::train
