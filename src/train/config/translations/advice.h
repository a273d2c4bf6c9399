#pragma once

#include <string>
#include <vector>

#include "train/config/toml/toml_reader.h"
#include "train/config/translations/translations.h"

namespace accrue::train {

/// All that a file and its overrides state, known keys and others.
using Statements = std::vector<Entry>;

/// How the reader states what an error advises: in a file "under [batch]: micro_batches = 8", on
/// the command line "--batch.micro_batches=8". Either may be pasted as it stands.
enum class Medium { file, command_line };

/// What to state where `value` was stated under another system's name, and what differs, for the
/// end of an error. A second key that a row needs takes the value that `statements` have for it,
/// under its own name or another system's; what is stated already is not to be stated again, and
/// what the new keys exclude is named as replaced.
std::string advice_for(const Translation& row, const Value& value, Medium medium,
                       const Statements& statements = {});

}  // namespace accrue::train
