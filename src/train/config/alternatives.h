#pragma once

#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "train/config/checks.h"

namespace accrue::train {

/// The keys that exclude `key`: for run.steps these are run.tokens and run.epochs; most keys have
/// none.
std::vector<std::string> alternatives_to(const std::string& key);

/// Takes back what `config` and `stated` have of a key and of those that exclude it; does nothing
/// if no key excludes it.
void withdraw_alternatives(const std::string& key, Config& config, StatedKeys& stated);

}  // namespace accrue::train
