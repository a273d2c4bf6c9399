#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::models {

/// The precision of a model's arithmetic. bf16 and fp16 are mixed: masters and the residual stream
/// are in fp32. Gradients in fp16 need a loss scale.
enum class Compute { fp32, bf16, fp16, fp64 };
/// The words of precision.compute.
inline constexpr auto compute_words = enum_words<Compute>({{Compute::fp32, "fp32"},
                                                           {Compute::bf16, "bf16"},
                                                           {Compute::fp16, "fp16"},
                                                           {Compute::fp64, "fp64"}});
constexpr std::string_view to_string(Compute compute) { return compute_words.of(compute); }

/// Whether operands are rounded to 16 bits, with separate masters.
constexpr bool is_mixed(Compute compute) {
  return compute == Compute::bf16 || compute == Compute::fp16;
}

}  // namespace accrue::models
