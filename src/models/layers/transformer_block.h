#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/kernels/key_value_cache.h"
#include "models/layers/projection.h"

namespace accrue::models {

struct LayerNorm {
  at::Tensor weight, bias;
  double eps = 1e-5;

  at::Tensor operator()(const at::Tensor& x, at::ScalarType out,
                        const ForwardContext& context) const;
};

LayerNorm make_norm(ParameterBuilder& builder, const std::string& name, std::int64_t width,
                    double eps);
/// The common options of a model's blocks.
struct BlockOptions {
  std::int64_t heads = 1;
  bool causal = true;
  double dropout = 0;
  at::ScalarType activations = at::kFloat;  ///< dtype of GEMM inputs
};

/// A pre-norm transformer block: y = x + attention(norm(x)), then y + mlp(norm(y)). Dropout is on
/// the attention weights and after either part, at `first_site` and the two sites after it.
struct TransformerBlock {
  LayerNorm before;
  Projection qkv, attention_out;
  LayerNorm after;
  Projection mlp_in, mlp_out;

  /// With a `cache` the positions of x follow those in it, and are appended; no gradient.
  at::Tensor operator()(const at::Tensor& x, const BlockOptions& options,
                        const ForwardContext& context, std::int64_t first_site,
                        kernels::KeyValueCache* cache = nullptr);
  std::vector<Projection*> projections() { return {&qkv, &attention_out, &mlp_in, &mlp_out}; }

 private:
  at::Tensor feed_forward(const at::Tensor& x, const ForwardContext& context,
                          const kernels::Remake& remake_x);
};

}  // namespace accrue::models
