#pragma once

#include <string>

#include "accrue/models/gpt2.h"
#include "accrue/train/config.h"

namespace accrue::cli {

/// README.md of an exported model: what it is, how it was trained, how it is loaded.
std::string model_card(const train::Config& config, const models::Gpt2Options& shape,
                       const std::string& checkpoint, bool byte_tokens);

}  // namespace accrue::cli
