#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::models {

/// The training objective of a language model.
enum class LossKind {
  lm,    ///< predict each token: cross-entropy
  mlm,   ///< predict the masked tokens: cross-entropy of these
  dpo,   ///< for pairs: prefer the chosen sequence more than a reference model does
  orpo,  ///< for pairs: learn the chosen sequence, and prefer it
};
inline constexpr auto loss_kind_words = enum_words<LossKind>({{LossKind::lm, "lm"},
                                                              {LossKind::mlm, "mlm"},
                                                              {LossKind::dpo, "dpo"},
                                                              {LossKind::orpo, "orpo"}});
constexpr std::string_view to_string(LossKind kind) { return loss_kind_words.of(kind); }
constexpr bool is_of_pairs(LossKind kind) {
  return kind == LossKind::dpo || kind == LossKind::orpo;
}

/// The loss of a model. Label smoothing and z-loss change the cross-entropy in training
/// (kernels/cross_entropy.h). Evaluation (ForwardContext::training false) uses the plain
/// cross-entropy, so that its losses can be compared whatever these options are.
struct LossOptions {
  double label_smoothing = 0;  ///< in [0, 1)
  double z_loss = 0;           ///< not negative
  LossKind kind = LossKind::lm;
  double beta = 0.1;  ///< of pairs: how much a preference counts (layers/pair_losses.h)
};

}  // namespace accrue::models
