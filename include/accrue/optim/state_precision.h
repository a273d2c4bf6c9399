#pragma once

#include <cstdint>
#include <string_view>

#include "accrue/core/enum_words.h"
#include "accrue/core/rank_slice.h"

namespace accrue::optim {

/// The precision of an optimizer's moments between steps; a step computes in the parameter's
/// precision. Errors and costs: docs/numerics.md, "Optimizer state".
///
/// - fp32: the parameter's own dtype.
/// - bf16: rounded stochastically, so that small changes are not always lost. Unbiased.
/// - int8: 8-bit dynamic codes with one scale per 256 elements (Dettmers et al., "8-bit
///   Optimizers via Block-wise Quantization", arXiv:2110.02861). Tensors of fewer than 4,096
///   elements (biases, norms) stay in fp32.
enum class StatePrecision { fp32, bf16, int8 };
/// The words of optim.state.
inline constexpr auto state_precision_words =
    enum_words<StatePrecision>({{StatePrecision::fp32, "fp32"},
                                {StatePrecision::bf16, "bf16"},
                                {StatePrecision::int8, "int8"}});
constexpr std::string_view to_string(StatePrecision precision) {
  return state_precision_words.of(precision);
}

struct StateOptions {
  StatePrecision precision = StatePrecision::fp32;
  std::uint64_t seed = 0;  ///< the key of bf16's rounding
  /// This optimizer keeps and steps only element_range_of() each parameter, with the index of the
  /// trained parameter as its number. All slices together have the bits of one optimizer that owns
  /// everything, in any precision.
  RankSlice slice = {};
};

}  // namespace accrue::optim
