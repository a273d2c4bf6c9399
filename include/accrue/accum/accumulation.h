#pragma once

#include <string_view>

namespace accrue::accum {

/// In which precision a window sums its micro-batches' gradients (docs/numerics.md, "Accumulation
/// precisions", has each one's error bound).
///
/// fp32 (fp64 for fp64 parameters) is direct: contributions are added inside the kernels' matrix
/// products. All others take one pass over memory for each contribution, from a scratch tensor of
/// the largest parameter's size.
enum class Accumulation {
  fp32,
  fp64,
  bf16,             ///< round to nearest: stalls where a sum is 256 times a contribution
  bf16_kahan,       ///< a bf16 sum and a bf16 compensation (Kahan, CACM 8(1), 1965)
  bf16_stochastic,  ///< rounds up or down by chance, unbiased; a replay draws the same
  fixed,            ///< int64 units of 2^s: the same bits for any order of the contributions
};

/// The config's spelling: "fp32", "fp64", "bf16", "bf16-kahan", "bf16-stochastic", "fixed".
std::string_view to_string(Accumulation accumulation);
/// Throws a usage Error that names the choices.
Accumulation parse_accumulation(std::string_view text);

}  // namespace accrue::accum
