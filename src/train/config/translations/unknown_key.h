#pragma once

#include <string>

#include "accrue/core/error.h"
#include "train/config/toml/toml_reader.h"
#include "train/config/translations/advice.h"

namespace accrue::train {

/// The error for a statement at `place` whose key is not in the table: it is another system's name,
/// with its translation; a value if a table is, or the other way round; near to a key; or near
/// to none, with the keys that there are. `all` is what is stated besides.
Error unknown_key(const Entry& entry, const std::string& place, const Statements& all);

}  // namespace accrue::train
