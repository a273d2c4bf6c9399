#pragma once

#include <cstdint>

#include "accrue/models/decoding_cache.h"
#include "models/layers/losses/token_head.h"

namespace accrue::models {

/// LanguageModel::decode for a `model` of `blocks` blocks that has embed(ids, context, first),
/// block(index, x, context, cache), norm_last(x, dtype, context), `activations`, the dtype of
/// products, and `output`, a TokenHead. `operation` names it in errors.
template <class Model>
at::Tensor decode(Model& model, std::int64_t blocks, const at::Tensor& ids, DecodingCache& cache,
                  std::int64_t most_tokens, const char* operation) {
  check_decoded_ids(operation, ids, most_tokens - cache.tokens());
  const at::NoGradGuard no_grad;
  const ForwardContext context{.training = false, .sample_ids = {}};
  at::Tensor x = model.embed(ids, context, cache.tokens());
  for (std::int64_t i = 0; i < blocks; ++i)
    x = model.block(i, x, context, &cache.layers[static_cast<std::size_t>(i)]);
  const at::Tensor last = x.select(1, ids.size(1) - 1);
  return model.output.decoded_logits(model.norm_last(last, model.activations, context)).flatten();
}

}  // namespace accrue::models
