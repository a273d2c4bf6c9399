#pragma once

#include <string_view>

namespace accrue::models {

/// The ends of an adapter's parameter names after their layer's, as in PEFT.
inline constexpr std::string_view factor_a_end = ".lora_A.weight", factor_b_end = ".lora_B.weight",
                                  magnitude_end = ".lora_magnitude_vector";

}  // namespace accrue::models
