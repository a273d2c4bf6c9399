#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::models {

/// The precision of a model's arithmetic. bf16 is mixed: masters and the residual stream in fp32.
enum class Compute { fp32, bf16, fp64 };
/// The words of precision.compute.
inline constexpr auto compute_words = enum_words<Compute>(
    {{Compute::fp32, "fp32"}, {Compute::bf16, "bf16"}, {Compute::fp64, "fp64"}});
constexpr std::string_view to_string(Compute compute) { return compute_words.of(compute); }

}  // namespace accrue::models
