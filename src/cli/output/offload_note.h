#pragma once

#include <string>

#include "accrue/train/config.h"

namespace accrue::cli {

/// Prints a line to stderr if the config has memory.offload: where `command` keeps the state, which
/// measures or compares passes through the whole model.
void note_offload(const train::Config& config, const std::string& command);

}  // namespace accrue::cli
