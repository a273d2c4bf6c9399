#pragma once

#include "accrue/models/gpt2.h"
#include "accrue/train/run_directory.h"

namespace accrue::cli {

/// Whether the run's tokens are bytes of text, so that its model reads and writes text.
bool trained_on_bytes(const train::Config& config, const models::Gpt2& model);

}  // namespace accrue::cli
