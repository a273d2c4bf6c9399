#pragma once

#include <string>

#include "accrue/core/error.h"
#include "train/config/toml/toml_reader.h"
#include "train/config/translations/advice.h"

namespace accrue::train {

/// What is said of a statement whose key is not in the table, at its `place`: another system's name
/// with its translation, a value where a table is or the other way round, the nearest key, or where
/// nothing is near the keys that there are. `all`: what is stated besides.
Error unknown_key(const Entry& entry, const std::string& place, const Statements& all);

}  // namespace accrue::train
