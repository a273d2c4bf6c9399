#pragma once

#include <cstdint>

#include "accrue/models/adapter_options.h"
#include "accrue/models/decoding_cache.h"
#include "accrue/models/model.h"

namespace accrue::models {

/// A Model of token sequences that predicts each token from those before it.
class LanguageModel : public Model {
 public:
  /// The most tokens of a sample.
  virtual std::int64_t context() const = 0;
  /// Token ids are in [0, vocab()).
  virtual std::int64_t vocab() const = 0;
  /// Logits [B, vocab] of the token after the last position, fp32 (fp64 for an fp64 model); no
  /// gradient. ids: [B, T], 1 <= T <= context(). Throws a usage Error for other sizes.
  virtual at::Tensor next_token_logits(const at::Tensor& ids) = 0;
  /// Log-probabilities of the sequences of `micro`, each summed over its labels that count: fp64
  /// [S]; no gradient.
  virtual at::Tensor sequence_log_probabilities(const batch::MicroBatch& micro) = 0;

  /// An empty cache for decode(), at the beginning of a text.
  virtual DecodingCache make_decoding_cache() const = 0;
  /// Reads `ids` [1, T], T >= 1, after the tokens in the cache, and returns the logits [vocab] of
  /// the next token: those of next_token_logits() for all tokens, up to rounding, at the cost of T
  /// positions. Products have the precision of training; the logits are fp32 (fp64 for an fp64
  /// model); no gradient. Throws a usage Error if there are more than context() tokens in total.
  /// After any other exception, go back in the cache to the tokens that it had.
  virtual at::Tensor decode(const at::Tensor& ids, DecodingCache& cache) = 0;

  /// The adapters with which it was made. If there are any, all other parameters are frozen, and
  /// their matrices are kept in the dtype of the products (bf16 if compute is bf16).
  virtual const AdapterOptions& adapters() const = 0;
  /// Resets the adapters to values with which they do not change the current weights.
  virtual void restart_adapters() = 0;
};

}  // namespace accrue::models
