#pragma once

#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "train/config/checks.h"

namespace accrue::train {

/// The keys that exclude `key`: of run.steps run.tokens and run.epochs; none of most.
std::vector<std::string> alternatives_to(const std::string& key);

/// Takes back what `config` and `stated` have of a key and of those that exclude it; nothing where
/// no other does.
void withdraw_alternatives(const std::string& key, Config& config, StatedKeys& stated);

}  // namespace accrue::train
