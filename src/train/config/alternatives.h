#pragma once

#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "train/config/checks.h"

namespace accrue::train {

/// The keys that exclude `key`: for run.steps these are run.tokens and run.epochs. Most keys have
/// none.
std::vector<std::string> alternatives_to(const std::string& key);

/// Removes a key and those that exclude it from `config` and `stated`; does nothing if no key
/// excludes it.
void withdraw_alternatives(const std::string& key, Config& config, StatedKeys& stated);

}  // namespace accrue::train
