#pragma once

#include <string>

#include "train/limits/limit_state.h"

/// Limits in words, for events and people.
namespace accrue::train {

/// "/run/temp above 85: slow", as in the config.
std::string in_words(const Limit& limit);
/// "/run/temp is 91", for a reading that has a value.
std::string in_words(const Limit& limit, double value);

/// Reports that a limit was met, and what follows.
std::string met_in_words(const Limit& limit, double value);
/// Reports that it is over after so many seconds.
std::string over_in_words(const Limit& limit, double value, double seconds);
/// Reports that it could not be read for so long that it is left out.
std::string left_out_in_words(const Limit& limit, const std::string& trouble);

}  // namespace accrue::train
