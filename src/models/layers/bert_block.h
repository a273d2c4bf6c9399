#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/models/bert.h"
#include "models/layers/transformer_block.h"

namespace accrue::models {

/// A post-norm transformer block: y = norm(x + attention(x)), then norm(y + mlp(y)), with GELU by
/// erf. Dropout is in the same places as in TransformerBlock.
struct BertBlock {
  Projection qkv, attention_out;
  LayerNorm after_attention;
  Projection mlp_in, mlp_out;
  LayerNorm after_mlp;

  at::Tensor operator()(const at::Tensor& x, const BlockOptions& options,
                        const ForwardContext& context, std::int64_t first_site);
  std::vector<Projection*> projections() { return {&qkv, &attention_out, &mlp_in, &mlp_out}; }
};

/// The feed-forward width in `options` is stated.
BertBlock make_bert_block(ParameterBuilder& builder, const std::string& name,
                          const BertOptions& options);

/// GELU by erf: x * P(N(0, 1) <= x).
at::Tensor exact_gelu(const at::Tensor& x);

}  // namespace accrue::models
