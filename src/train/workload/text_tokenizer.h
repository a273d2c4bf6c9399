#pragma once

#include <functional>
#include <memory>
#include <string>

#include "accrue/data/source.h"
#include "accrue/data/tokenizer.h"
#include "accrue/train/config.h"

namespace accrue::train {

using OpenTokenizer = std::function<std::shared_ptr<const data::Tokenizer>()>;

/// Opens the tokenizer of data.tokenizer at its first call, and returns the same one from then on;
/// null: bytes. "auto" is the tokenizer.json of `model.from` (of a run: the one that it keeps; of a
/// GGUF file: the one inside it), or bytes if there is none. Throws a usage Error if a stated file
/// does not exist, or is not one that this version reads.
OpenTokenizer tokenizer_of(const Config& config);

/// Throws a usage Error of the operation `key` if the text in `data` was tokenized differently than
/// for the model in `model.from`: its folder has another tokenizer, or none and text is read as
/// bytes though its vocabulary is not 256; or it belongs to a run on token files. `config` has the
/// model's vocabulary.
void check_text_is_of_model(const Config& config, const data::Source& data, const std::string& key);

/// Where tokens of text are saved for the next run: a folder next to the run's. Empty if the config
/// names no run.
std::filesystem::path text_cache_of(const Config& config);

}  // namespace accrue::train
