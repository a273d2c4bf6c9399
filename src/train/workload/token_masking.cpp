#include "train/workload/token_masking.h"

#include <algorithm>
#include <memory>
#include <string>

#include "accrue/core/error.h"
#include "data/masked_tokens.h"

namespace accrue::train {
namespace {

/// The tokens of BERT and of RoBERTa.
std::optional<std::int64_t> mask_of(const data::Tokenizer& tokenizer) {
  const auto mask = tokenizer.id_of("[MASK]");
  return mask ? mask : tokenizer.id_of("<mask>");
}

Error nobody_tells_mask(const data::Source& data) {
  const std::shared_ptr<const data::Tokenizer> tokenizer = data.tokenizer();
  return usage_error(
      "loss.mask_token = \"auto\"",
      "the id that hides a token: a tokenizer with [MASK] or <mask>, or text as bytes",
      tokenizer ? tokenizer->file().string() + " without such a token"
                : "token ids, of which no file says what they stand for",
      "mask_token = ID in [loss], an id that stands for no token of the data");
}

data::TokenMasking masking_of(const Config& config, const data::Source& data,
                              std::int64_t mask_token) {
  const std::int64_t of_model = config.model.vocab.value_or(0);
  data::TokenMasking masking{
      .fraction = config.loss.mask_fraction,
      .mask_token = mask_token,
      .vocab = data.vocab() > 0 ? std::min(data.vocab(), of_model) : of_model,
      .seed = config.run.seed};
  if (const auto tokenizer = data.tokenizer()) masking.never_chosen = tokenizer->special_ids();
  return masking;
}

}  // namespace

std::optional<std::int64_t> mask_token_of(const Config& config, const data::Source& data) {
  if (config.loss.kind != models::LossKind::mlm) return std::nullopt;
  if (config.loss.mask_token) return config.loss.mask_token;
  const std::shared_ptr<const data::Tokenizer> tokenizer = data.tokenizer();
  const bool is_bytes = !tokenizer && data.has_text() && data.vocab() > 0;
  const std::optional<std::int64_t> mask = is_bytes    ? std::optional(data.vocab())
                                           : tokenizer ? mask_of(*tokenizer)
                                                       : std::nullopt;
  if (!mask) throw nobody_tells_mask(data);
  return mask;
}

std::int64_t vocabulary_of(const Config& config, const data::Source& data) {
  const std::optional<std::int64_t> mask = mask_token_of(config, data);
  return mask && data.vocab() > 0 ? std::max(data.vocab(), *mask + 1) : data.vocab();
}

Datasets hide_tokens(const Config& config, const Datasets& sets) {
  const std::optional<std::int64_t> mask = mask_token_of(config, *sets.train);
  if (!mask) return sets;
  const std::int64_t vocab = config.model.vocab.value_or(0);
  if (*mask >= vocab)
    throw usage_error(
        "loss.mask_token", "an id of the model's vocabulary of " + std::to_string(vocab),
        std::to_string(*mask),
        "model.vocab = " + std::to_string(*mask + 1) + ", or the id of another token");
  const auto hidden =
      [&](const std::shared_ptr<const data::Source>& data) -> std::shared_ptr<const data::Source> {
    return data ? data::with_masks(data, masking_of(config, *data, *mask)) : nullptr;
  };
  return {.train = hidden(sets.train), .val = hidden(sets.val)};
}

}  // namespace accrue::train
