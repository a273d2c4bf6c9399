#pragma once

#include <cstdint>
#include <optional>

#include "accrue/data/source.h"
#include "accrue/train/config.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The id that hides a token of `data` from a model that learns to predict it: loss.mask_token, or
/// the tokenizer's [MASK] (or <mask>), or of bytes one more than there are; nothing if the loss
/// hides none. Throws a usage Error if nobody tells it.
std::optional<std::int64_t> mask_token_of(const Config& config, const data::Source& data);

/// The ids that a model of `data` needs: the data's, and where the loss hides tokens the mask's; 0
/// if the files do not tell.
std::int64_t vocabulary_of(const Config& config, const data::Source& data);

/// `sets` as the loss has them: with tokens hidden, or as they are. The config has the model's
/// vocabulary. Throws a usage Error if the mask's id is outside it.
Datasets hide_tokens(const Config& config, const Datasets& sets);

}  // namespace accrue::train
