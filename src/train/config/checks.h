#pragma once

#include <map>
#include <string>

#include "accrue/train/config.h"

namespace accrue::train {

/// Keys that were stated, each with the words that name it and its place in errors.
using StatedKeys = std::map<std::string, std::string>;

/// What no key can check alone: one of several keys, keys that contradict each other.
/// Throws a usage Error; `origin` names the config where a key is missing.
void check_together(const Config& config, const StatedKeys& stated, const std::string& origin);

/// What a statement must not be although the key alone would take it: of a key that the config does
/// not read, or a value with which training is not defined. Throws a usage Error.
void check_statements(const Config& config, const StatedKeys& stated);

}  // namespace accrue::train
