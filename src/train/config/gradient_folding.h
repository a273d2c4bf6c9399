#pragma once

#include <optional>
#include <string>

#include "accrue/train/config.h"

namespace accrue::train {

/// Whether micro-batches' gradients go into the optimizer's state as they are made, and no gradient
/// buffer is kept: `optim.kind = "adama"`, or `memory.gradients = "optimizer"`.
bool folds_gradients(const Config& config);

/// Two keys that do not go together.
struct Conflict {
  std::string key;       ///< the one to change
  std::string expected;  ///< with the reason
  std::string received;
  std::string suggestion;
};

/// What in `config` does not go with folded gradients, or with the precision of the optimizer's
/// state: the one table (docs/guide/config.md), for all verbs.
std::optional<Conflict> optimizer_memory_conflict(const Config& config);

}  // namespace accrue::train
