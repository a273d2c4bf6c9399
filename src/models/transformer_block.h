#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "accrue/kernels/low_precision.h"
#include "accrue/models/trainable.h"
#include "parameter_builder.h"

namespace accrue::models {

struct LayerNorm {
  at::Tensor weight, bias;
  double eps = 1e-5;

  at::Tensor operator()(const at::Tensor& x, at::ScalarType out) const;
};

/// An affine map with its weight's low-precision copy.
struct Projection {
  at::Tensor weight, bias;
  kernels::LowPrecisionCopy copy;

  at::Tensor operator()(const at::Tensor& x);
};

LayerNorm make_norm(ParameterBuilder& builder, const std::string& name, std::int64_t width,
                    double eps);
Projection make_projection(ParameterBuilder& builder, const std::string& name, std::int64_t in,
                           std::int64_t out, double deviation);

/// What all blocks of a model have in common.
struct BlockOptions {
  std::int64_t heads = 1;
  bool causal = true;
  double dropout = 0;
  at::ScalarType activations = at::kFloat;  ///< of GEMM inputs
};

/// A pre-norm transformer block: x + attention(norm(x)), then that plus mlp(norm(that)). Dropout on
/// the attention weights and behind either part, at `first_site` and the two sites after it.
struct TransformerBlock {
  LayerNorm before;
  Projection qkv, attention_out;
  LayerNorm after;
  Projection mlp_in, mlp_out;

  at::Tensor operator()(const at::Tensor& x, const BlockOptions& options,
                        const ForwardContext& context, std::int64_t first_site);
};

/// The segments "embed", "block.0" ... "block.<blocks - 1>" and "head" of a transformer.
struct TransformerParts {
  std::function<at::Tensor(const batch::MicroBatch& micro, const ForwardContext& context)> embed;
  std::function<at::Tensor(std::int64_t block, const at::Tensor& x, const ForwardContext& context)>
      block;
  std::function<at::Tensor(const at::Tensor& x)> head;
};
std::vector<Segment> transformer_segments(const TransformerParts& parts, std::int64_t blocks);

}  // namespace accrue::models
