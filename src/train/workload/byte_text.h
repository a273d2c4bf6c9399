#pragma once

#include "accrue/data/source.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// Text becomes byte tokens, which only a model of bytes has learned. Throws a usage Error, its
/// operation being `key`, where `data` have text and the gpt2 that `model.from` names was trained
/// on other tokens: its folder has another tokenizer than that of `accrue export`, or none and
/// another vocabulary than 256; or it belongs to a run on token files. `config` has the model's
/// vocabulary.
void check_text_is_of_model(const Config& config, const data::Source& data, const std::string& key);

}  // namespace accrue::train
