#pragma once

#include <map>
#include <string>

#include "accrue/train/config.h"

namespace accrue::train {

/// Keys that were stated, each with the words that name it and its place in errors.
using StatedKeys = std::map<std::string, std::string>;

/// The words that name `key` in errors.
std::string where(const StatedKeys& stated, const std::string& key);

/// Checks that involve several keys: one of several keys, keys that contradict each other. Throws a
/// usage Error; `origin` names the config if a key is missing.
void check_together(const Config& config, const StatedKeys& stated, const std::string& origin);

/// Those of `stated` that are keys of the model's shape, which the run in model.from fixes.
StatedKeys shape_beside_run(const Config& config, const StatedKeys& stated);

/// Throws a usage Error for a statement that its key alone would take, if the config does not
/// read the key or training is not defined with the value. A key of the shape beside a run is
/// compared when the run is read.
void check_statements(const Config& config, const StatedKeys& stated);

}  // namespace accrue::train
