#pragma once

#include <cstdint>

#include "accrue/models/adapter_options.h"
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
  /// The adapters that it was made with. Where there are any, all other parameters are frozen, and
  /// the matrices among these are held in the dtype of the products (bf16 where compute is bf16).
  virtual const AdapterOptions& adapters() const = 0;
  /// Gives adapters the values with which they change nothing, of the weights as they are.
  virtual void restart_adapters() = 0;
};

}  // namespace accrue::models
