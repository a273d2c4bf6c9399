#pragma once

#include <string>
#include <vector>

#include "train/config/toml/toml_reader.h"
#include "train/config/translations/translations.h"

namespace accrue::train {

/// All statements of a file and its overrides, with known and unknown keys.
using Statements = std::vector<Entry>;

/// The form in which an error advises a statement: in a file "under [batch]: micro_batches = 8", on
/// the command line "--batch.micro_batches=8". Either can be pasted as it is.
enum class Medium { file, command_line };

/// The end of an error: what to state instead of `value`, which was stated under another system's
/// name, and what differs. A second key that a row needs takes the value that `statements` have for
/// it, under its own name or another system's. Keys that are stated are not advised again, and
/// statements that the new keys exclude are named as replaced.
std::string advice_for(const Translation& row, const Value& value, Medium medium,
                       const Statements& statements = {});

}  // namespace accrue::train
