#pragma once

#include <string>

#include "accrue/train/run_directory.h"

namespace accrue::cli {

/// README.md of an exported model: what it is, what it reads, how it is loaded, how it was trained.
/// Of a gpt2 `byte_tokens` says whether its tokens are bytes of text.
std::string language_model_card(const train::TrainedModel& trained, bool byte_tokens);
std::string image_model_card(const train::TrainedModel& trained);
/// Of a TorchScript module of text or tokens.
std::string module_card(const train::TrainedModel& trained);

}  // namespace accrue::cli
