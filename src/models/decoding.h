#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/models/language_model.h"

namespace accrue::models {

/// A language model that goes on with a text, and does not read again what it has read of it.
class Decoding {
 public:
  /// `model` is kept by reference; its parameters are not to change.
  explicit Decoding(LanguageModel& model) : model_(model), cache_(model.make_decoding_cache()) {}

  LanguageModel& model() const { return model_; }

  /// Logits [vocab] of the token behind `tokens`, of which there is at least one: those that
  /// LanguageModel::decode() gives of the last context() tokens. What these have in common with the
  /// tokens of the call before, from the first one on, is not read again. So a text that fits into
  /// the context costs one position a token; once it is longer, its beginning moves with every
  /// token and all of the context is read again each time, as positions count from that beginning.
  at::Tensor logits_behind(std::span<const std::int64_t> tokens);

 private:
  LanguageModel& model_;
  DecodingCache cache_;
  std::vector<std::int64_t> read_;  ///< the tokens in the cache
};

}  // namespace accrue::models
