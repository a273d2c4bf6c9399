#pragma once

#include <functional>
#include <memory>
#include <string>

#include "accrue/data/source.h"
#include "accrue/data/tokenizer.h"
#include "accrue/train/config.h"

namespace accrue::train {

using OpenTokenizer = std::function<std::shared_ptr<const data::Tokenizer>()>;

/// Opens what data.tokenizer comes to when it is first asked for, and gives the same one from then
/// on; null: bytes. "auto" is the tokenizer.json of `model.from` (of a run: the one that it keeps;
/// of a GGUF file: the one inside it), or bytes if there is none. Throws a usage Error if a
/// file that is stated is not there, or is none that this version reads.
OpenTokenizer tokenizer_of(const Config& config);

/// Throws a usage Error, its operation being `key`, where `data` have text that became other tokens
/// than those that the model that `model.from` names was trained on: its folder has another
/// tokenizer, or none and text is read as bytes though its vocabulary is not 256; or it belongs to
/// a run on token files. `config` has the model's vocabulary.
void check_text_is_of_model(const Config& config, const data::Source& data, const std::string& key);

/// Where tokens of text are kept for the next run: a folder beside the run's. Empty if the
/// config names no run.
std::filesystem::path text_cache_of(const Config& config);

}  // namespace accrue::train
