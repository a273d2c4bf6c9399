#pragma once

#include <string_view>

namespace accrue::models {

/// What the names of an adapter's parameters end in behind their layer's, as PEFT has it.
inline constexpr std::string_view factor_a_end = ".lora_A.weight", factor_b_end = ".lora_B.weight",
                                  magnitude_end = ".lora_magnitude_vector";

}  // namespace accrue::models
