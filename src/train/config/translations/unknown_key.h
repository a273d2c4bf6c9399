#pragma once

#include <string>

#include "accrue/core/error.h"
#include "train/config/toml/toml_reader.h"
#include "train/config/translations/advice.h"

namespace accrue::train {

/// The error for a statement at `place` whose key is not in the table. It translates another
/// system's name, points out a section stated as a value or the reverse, suggests a similar key, or
/// else lists the existing keys. `all` are the other statements.
Error unknown_key(const Entry& entry, const std::string& place, const Statements& all);

}  // namespace accrue::train
