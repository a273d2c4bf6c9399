#pragma once

#include <cstdint>

#include "accrue/models/model.h"

namespace accrue::models {

/// A Model of sequences of tokens that predicts each from those before it.
class LanguageModel : public Model {
 public:
  /// The most tokens of a sample.
  virtual std::int64_t context() const = 0;
  /// Token ids are in [0, vocab()).
  virtual std::int64_t vocab() const = 0;
  /// Logits [B, vocab] of the token behind the last position, fp32 (fp64 model: fp64); no gradient.
  /// ids [B, T], 1 <= T <= context(). Throws a usage Error for others.
  virtual at::Tensor next_token_logits(const at::Tensor& ids) = 0;
  /// Log-probabilities of the sequences of `micro`, each summed over its labels that count: fp64
  /// [S]; no gradient.
  virtual at::Tensor sequence_log_probabilities(const batch::MicroBatch& micro) = 0;
};

}  // namespace accrue::models
