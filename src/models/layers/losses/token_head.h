#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <vector>

#include "accrue/kernels/prepared_weight.h"
#include "accrue/models/loss_options.h"
#include "accrue/models/trainable.h"

namespace accrue::models {

/// Converts a language model's last hidden states to logits, and these to a loss.
struct TokenHead {
  at::Tensor weight;     ///< [vocab, width]: a separate one, or the embedding's
  at::Tensor bias = {};  ///< [vocab], or undefined; logits() need a head without one
  double soft_cap = 0;   ///< of the logits: kernels::CrossEntropyOptions
  LossOptions options = {};
  bool fused = true;  ///< computes the loss by chunks of rows, not from whole logits
  kernels::PreparedWeight prepared = {};

  Loss loss(const at::Tensor& hidden, const batch::MicroBatch& micro, const ForwardContext& context,
            double gradient_scale);
  at::Tensor logits(const at::Tensor& hidden, const ForwardContext& context);
  /// Logits [B, vocab] of hidden states [B, width] in the dtype of products, in fp32 (fp64 for
  /// fp64); without a gradient.
  at::Tensor decoded_logits(const at::Tensor& hidden);
  /// Segment::weights of the head.
  std::vector<at::Tensor> weights() const;

 private:
  at::Tensor capped(const at::Tensor& plain) const {
    return soft_cap == 0 ? plain : soft_cap * at::tanh(plain / soft_cap);
  }
};

/// The loss of a model whose last segment returns hidden states: "cross_entropy", or the loss of
/// pairs in head->options (preference_loss()); `head` must outlive it. Nothing but the loss may
/// read the hidden states' memory after it.
LossHead token_loss(TokenHead* head);

/// Throws a usage Error of `operation` unless `ids` are int64 [B, T], and T at most `context` if a
/// row is one sample (not `packed`: samples are checked when they are embedded).
void check_token_ids(const char* operation, const at::Tensor& ids, std::int64_t context,
                     bool packed);

/// Throws a usage Error of `operation` unless `ids` are int64 [1, T], T from 1 to `room`.
void check_decoded_ids(const char* operation, const at::Tensor& ids, std::int64_t room);

/// `ids` followed by zeros, so that kernels see few different shapes: they are specialised by
/// shape, and the shape grows with every generated token.
at::Tensor padded_right(const at::Tensor& ids, std::int64_t most_tokens, const char* operation);

/// LanguageModel::next_token_logits for a `model` of `blocks` blocks that has embed(ids, context),
/// block(index, x, context), norm_last(x, dtype, context) and `output`, a TokenHead. `operation`
/// names it in errors.
template <class Model>
at::Tensor next_token_logits(Model& model, std::int64_t blocks, const at::Tensor& ids,
                             std::int64_t most_tokens, const char* operation) {
  const at::NoGradGuard no_grad;
  const ForwardContext context{.training = false, .sample_ids = {}};
  // Attention is causal, so positions after the last token do not affect its logits.
  at::Tensor x = model.embed(padded_right(ids, most_tokens, operation), context);
  for (std::int64_t i = 0; i < blocks; ++i) x = model.block(i, x, context);
  const at::Tensor last = x.select(1, ids.size(1) - 1).contiguous();
  return model.output.logits(model.norm_last(last, model.output.weight.scalar_type(), context),
                             context);
}

}  // namespace accrue::models
