#pragma once

#include <cstdint>
#include <optional>

#include "accrue/data/source.h"
#include "accrue/train/config.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The id that hides a token of `data` from a model that learns to predict it: loss.mask_token, or
/// the tokenizer's [MASK] (or <mask>), or for bytes one more than there are; none if the loss hides
/// no tokens. Throws a usage Error if none of these defines it.
std::optional<std::int64_t> mask_token_of(const Config& config, const data::Source& data);

/// The number of ids that a model of `data` needs: the data's, and if the loss hides tokens the
/// mask's; 0 if not known from the files.
std::int64_t vocabulary_of(const Config& config, const data::Source& data);

/// `sets` as the loss needs them: with tokens hidden, or unchanged. The config has the model's
/// vocabulary. Throws a usage Error if the mask's id is outside it.
Datasets hide_tokens(const Config& config, const Datasets& sets);

}  // namespace accrue::train
