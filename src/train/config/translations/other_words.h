#pragma once

#include <optional>
#include <vector>

#include "train/config/key_builders.h"

namespace accrue::train {

/// Names of fp16 that precision.compute does not take.
std::vector<Refused> half_precisions();
/// Names of a GPU that run.device does not take.
std::vector<Refused> other_devices();
/// Optimizers whose names resemble a word of optim.kind but which are different ones.
std::vector<Refused> other_optimizers();
/// The word of model.kind for a kind with another version or size behind it: gpt2 for "gpt3",
/// resnet for "resnet50". None if accrue has no such kind.
std::optional<Value> kind_without_version(const Value& stated);

}  // namespace accrue::train
