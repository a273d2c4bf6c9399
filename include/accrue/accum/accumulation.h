#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::accum {

/// The precision in which a window sums the gradients of its micro-batches. Error bounds of each:
/// docs/numerics.md, "Accumulation precisions".
///
/// fp32 (fp64 for fp64 parameters) is direct: contributions are added inside the kernels' matrix
/// products. Each other precision takes one pass over memory per contribution, from a scratch
/// tensor of the largest parameter's size.
enum class Accumulation {
  fp32,
  fp64,
  bf16,             ///< round to nearest: stalls when a sum is 256 times a contribution
  bf16_kahan,       ///< a bf16 sum and a bf16 compensation (Kahan, CACM 8(1), 1965)
  bf16_stochastic,  ///< rounds up or down at random, unbiased; a replay draws the same numbers
  fixed,            ///< int64 units of 2^s: the same bits for any order of contributions
};

/// The words of precision.accumulate.
inline constexpr auto accumulation_words =
    enum_words<Accumulation>({{Accumulation::fp32, "fp32"},
                              {Accumulation::fp64, "fp64"},
                              {Accumulation::bf16, "bf16"},
                              {Accumulation::bf16_kahan, "bf16-kahan"},
                              {Accumulation::bf16_stochastic, "bf16-stochastic"},
                              {Accumulation::fixed, "fixed"}});
constexpr std::string_view to_string(Accumulation accumulation) {
  return accumulation_words.of(accumulation);
}

}  // namespace accrue::accum
