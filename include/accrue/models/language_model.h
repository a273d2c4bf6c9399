#pragma once

#include <cstdint>

#include "accrue/models/adapter_options.h"
#include "accrue/models/decoding_cache.h"
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

  /// What decode() reads into, of a text of which nothing is read yet.
  virtual DecodingCache make_decoding_cache() const = 0;
  /// Reads `ids` [1, T] behind the tokens that the cache has, T >= 1, and gives the logits [vocab]
  /// of the token behind them: those of next_token_logits() of all of them, up to rounding, at the
  /// cost of T positions. Products are in the precision of training, the logits fp32 (fp64 model:
  /// fp64); no gradient. Throws a usage Error if all tokens together are more than context();
  /// what throws otherwise leaves the cache to be taken back to the tokens that it had.
  virtual at::Tensor decode(const at::Tensor& ids, DecodingCache& cache) = 0;

  /// The adapters that it was made with. If there are any, all other parameters are frozen, and
  /// the matrices among these are held in the dtype of the products (bf16 where compute is bf16).
  virtual const AdapterOptions& adapters() const = 0;
  /// Gives adapters the values with which they change nothing, of the weights as they are.
  virtual void restart_adapters() = 0;
};

}  // namespace accrue::models
