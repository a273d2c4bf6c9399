#pragma once

#include <string>

#include "accrue/train/run_directory.h"

namespace accrue::cli {

/// README.md of an exported model: what it is, what it reads, how it is loaded, how it was trained.
/// `byte_tokens` says whether a gpt2's tokens are bytes of text.
std::string language_model_card(const train::TrainedModel& trained, bool byte_tokens);
/// The card of a bert; `byte_tokens` as above.
std::string masked_model_card(const train::TrainedModel& trained, bool byte_tokens);
/// README.md of adapters that go onto the base that the run began with.
std::string adapter_card(const train::TrainedModel& trained);
std::string image_model_card(const train::TrainedModel& trained);
/// The card of a TorchScript module of text or tokens.
std::string module_card(const train::TrainedModel& trained);

}  // namespace accrue::cli
