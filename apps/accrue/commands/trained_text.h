#pragma once

#include <string>

#include "accrue/models/gpt2.h"
#include "accrue/train/run_directory.h"

namespace accrue::cli {

/// The model of a run, which must be a language model of ours; else a usage Error that names
/// `operation` and what to do instead.
models::Gpt2& expect_gpt2(models::Model& model, const std::string& operation,
                          const std::string& suggestion);

/// Whether the run's tokens are bytes of text, so that its model reads and writes text.
bool trained_on_bytes(const train::Config& config, const models::Gpt2& model);

}  // namespace accrue::cli
