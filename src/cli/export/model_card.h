#pragma once

#include <string>

#include "accrue/train/run_directory.h"
#include "cli/export/exported_text.h"

namespace accrue::cli {

/// README.md of an exported model: what it is, what it reads, how it is loaded, how it was trained.
/// For a model with a chat template it shows that.
std::string language_model_card(const train::TrainedModel& trained, const ExportedText& text);
/// The card of a bert; `byte_tokens`: whether its tokens are bytes of text.
std::string masked_model_card(const train::TrainedModel& trained, bool byte_tokens);
/// README.md of adapters for the run's initial model as their base.
std::string adapter_card(const train::TrainedModel& trained, const ExportedText& text);
std::string image_model_card(const train::TrainedModel& trained);
/// The card of a TorchScript module of text or tokens.
std::string module_card(const train::TrainedModel& trained);

}  // namespace accrue::cli
