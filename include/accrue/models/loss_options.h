#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::models {

/// What a language model learns from its data.
enum class LossKind {
  lm,    ///< to predict each token: cross-entropy
  mlm,   ///< to predict the tokens that are hidden from it: cross-entropy of these
  dpo,   ///< of pairs, to prefer the chosen sequence more than a reference does
  orpo,  ///< of pairs, to say the chosen sequence, and to prefer it
};
inline constexpr auto loss_kind_words = enum_words<LossKind>({{LossKind::lm, "lm"},
                                                              {LossKind::mlm, "mlm"},
                                                              {LossKind::dpo, "dpo"},
                                                              {LossKind::orpo, "orpo"}});
constexpr std::string_view to_string(LossKind kind) { return loss_kind_words.of(kind); }
constexpr bool is_of_pairs(LossKind kind) {
  return kind == LossKind::dpo || kind == LossKind::orpo;
}

/// A model's loss. Label smoothing and z-loss are of the cross-entropy while it trains
/// (kernels/cross_entropy.h); evaluation (ForwardContext::training false) is of the plain one, so
/// that its losses can be compared whatever these are.
struct LossOptions {
  double label_smoothing = 0;  ///< in [0, 1)
  double z_loss = 0;           ///< not negative
  LossKind kind = LossKind::lm;
  double beta = 0.1;  ///< of pairs: how much a preference counts (layers/pair_losses.h)
};

}  // namespace accrue::models
