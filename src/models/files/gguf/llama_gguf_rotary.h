#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/models/llama.h"

namespace accrue::models {

/// What llama3's scaling divides each channel's frequency by (arXiv:2407.21783, section 3.4.2).
std::vector<double> llama3_factors(const RotaryOptions& rotary, std::int64_t head_width);

/// The scaling of kind llama3 that has these factors, with `base`; files do not state it otherwise.
/// Original contexts are tried as Llama 3 has it and as `stated_context` says (0: nothing). None
/// if no such scaling gives the factors within a ten-thousandth.
std::optional<RotaryOptions> llama3_of_factors(const std::vector<double>& factors, double base,
                                               std::int64_t stated_context);

}  // namespace accrue::models
