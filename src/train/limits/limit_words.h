#pragma once

#include <string>

#include "train/limits/limit_state.h"

/// Limits in words, for events and people.
namespace accrue::train {

/// "/run/temp above 85: slow", as it is stated.
std::string in_words(const Limit& limit);
/// "/run/temp is 91", of a reading that has a value.
std::string in_words(const Limit& limit, double value);

/// That a limit came to be met, and what follows.
std::string met_in_words(const Limit& limit, double value);
/// That it is over after so many seconds.
std::string over_in_words(const Limit& limit, double value, double seconds);
/// That nothing was read of it for so long that it is left out.
std::string left_out_in_words(const Limit& limit, const std::string& trouble);

}  // namespace accrue::train
