#pragma once

#include "train/config/checks.h"

namespace accrue::train {

/// Whether the key states the size of a batch that stays as it is, in tokens or samples.
bool is_batch_size(const std::string& key);

/// If no batch is stated and batch.schedule begins at 0, its first stage is the batch.
void take_batch_of_schedule(Config& config, StatedKeys& stated);

/// Throws if the keys of a changing batch contradict each other or the rest of the config.
void check_batch_changes(const Config& config, const StatedKeys& stated);

}  // namespace accrue::train
