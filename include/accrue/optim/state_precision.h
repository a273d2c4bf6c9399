#pragma once

#include <cstdint>
#include <string_view>

#include "accrue/core/enum_words.h"
#include "accrue/core/rank_slice.h"

namespace accrue::optim {

/// What an optimizer's moments are kept in between steps; a step computes in the parameter's own
/// precision. docs/numerics.md, "Optimizer state", has errors and costs.
///
/// - fp32: the parameter's own dtype.
/// - bf16: rounded stochastically, so that no small change is always lost. Unbiased.
/// - int8: 8-bit dynamic codes with a scale for every 256 elements (Dettmers et al., "8-bit
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
  std::uint64_t seed = 0;  ///< keys bf16's rounding
  /// This optimizer keeps and steps only element_range_of() each parameter, number i being the i-th
  /// that is trained. All slices together have the bits of one optimizer that owns everything, in
  /// any precision.
  RankSlice slice = {};
};

}  // namespace accrue::optim
