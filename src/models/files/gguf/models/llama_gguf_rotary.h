#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/models/llama.h"

namespace accrue::models {

/// The divisors of llama3's scaling for each channel's frequency (arXiv:2407.21783, section 3.4.2).
std::vector<double> llama3_factors(const RotaryOptions& rotary, std::int64_t head_width);

/// The scaling of kind llama3 that has these factors, with `base`; files only state it in this
/// form. Tries the original context of Llama 3 and `stated_context` (0: none). None if no such
/// scaling gives the factors within a ten-thousandth.
std::optional<RotaryOptions> llama3_of_factors(const std::vector<double>& factors, double base,
                                               std::int64_t stated_context);

}  // namespace accrue::models
