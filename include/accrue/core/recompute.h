#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue {

/// The activations that backward recomputes instead of keeping (Chen et al., arXiv:1604.06174; the
/// selective form: Korthikanti et al., arXiv:2205.05198). The gradients have the same bits.
enum class Recompute {
  none,       ///< nothing that is expensive to compute
  selective,  ///< what is cheap: norms, activation functions, attention probabilities
  full,       ///< everything within a block: only the blocks' inputs are kept
};
inline constexpr auto recompute_words = enum_words<Recompute>(
    {{Recompute::none, "none"}, {Recompute::selective, "selective"}, {Recompute::full, "full"}});

constexpr std::string_view to_string(Recompute recompute) { return recompute_words.of(recompute); }
/// Throws a usage Error naming `what` if `text` is none of the words.
inline Recompute parse_recompute(std::string_view text, std::string_view what) {
  return recompute_words.parse(text, what, "\"full\"");
}

}  // namespace accrue
