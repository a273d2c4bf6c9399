#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/models/language_model.h"

namespace accrue::models {

/// A language model that continues a text, without reading again what it has already read.
class Decoding {
 public:
  /// `model` is kept by reference; its parameters must not change.
  explicit Decoding(LanguageModel& model) : model_(model), cache_(model.make_decoding_cache()) {}

  LanguageModel& model() const { return model_; }

  /// Logits [vocab] for the token after `tokens`, of which there is at least one: those that
  /// LanguageModel::decode() returns for the last context() tokens. The common beginning with the
  /// tokens of the previous call is not read again. So a text that fits into the context costs one
  /// position per token; once it is longer, its beginning moves with every token and all of the
  /// context is read again each time, as positions count from that beginning.
  at::Tensor next_logits(std::span<const std::int64_t> tokens);

 private:
  LanguageModel& model_;
  DecodingCache cache_;
  std::vector<std::int64_t> read_;  ///< the tokens in the cache
};

}  // namespace accrue::models
