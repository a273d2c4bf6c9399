#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/kernels/prepared_weight.h"
#include "accrue/kernels/recompute.h"
#include "accrue/models/trainable.h"
#include "models/layers/parameter_builder.h"

namespace accrue::models {

struct LayerNorm {
  at::Tensor weight, bias;
  double eps = 1e-5;

  at::Tensor operator()(const at::Tensor& x, at::ScalarType out,
                        const ForwardContext& context) const;
};

/// An affine map with what its products need of the weight.
struct Projection {
  at::Tensor weight, bias;
  kernels::PreparedWeight prepared;

  at::Tensor operator()(const at::Tensor& x, const ForwardContext& context,
                        const kernels::Remake& remake_x = {});
};

/// The standard deviation of a transformer's weights before training.
inline constexpr double initial_deviation = 0.02;

LayerNorm make_norm(ParameterBuilder& builder, const std::string& name, std::int64_t width,
                    double eps);
Projection make_projection(ParameterBuilder& builder, const std::string& name, std::int64_t in,
                           std::int64_t out, double deviation);

/// What all blocks of a model have in common.
struct BlockOptions {
  std::int64_t heads = 1;
  bool causal = true;
  double dropout = 0;
  at::ScalarType activations = at::kFloat;  ///< dtype of GEMM inputs
};

/// A pre-norm transformer block: y = x + attention(norm(x)), then y + mlp(norm(y)). Dropout is on
/// the attention weights and behind either part, at `first_site` and the two sites after it.
struct TransformerBlock {
  LayerNorm before;
  Projection qkv, attention_out;
  LayerNorm after;
  Projection mlp_in, mlp_out;

  at::Tensor operator()(const at::Tensor& x, const BlockOptions& options,
                        const ForwardContext& context, std::int64_t first_site);
};

/// What packed weights take at most where products read `activations`: Model::packed_weight_bytes.
std::int64_t packed_weight_bytes(const std::vector<TransformerBlock>& blocks,
                                 at::ScalarType activations);
void pack_weights(std::vector<TransformerBlock>& blocks, bool wanted);

/// The segments "embed", "block.0" ... and "head" of a transformer. `Model` has embed(inputs,
/// context), block(index, x, context) and head(x, context), each giving a tensor, and must outlive
/// them. For recomputation the embedding goes with the first block and the head with the last.
template <class Model>
std::vector<Segment> transformer_segments(Model* model, std::int64_t blocks) {
  std::vector<Segment> chain;
  chain.push_back({"embed", [model](const Activations&, const batch::MicroBatch& micro,
                                    const ForwardContext& context) {
                     return Activations{model->embed(micro.inputs, context)};
                   }});
  for (std::int64_t i = 0; i < blocks; ++i)
    chain.push_back({.name = "block." + std::to_string(i),
                     .forward =
                         [model, i](const Activations& x, const batch::MicroBatch&,
                                    const ForwardContext& context) {
                           return Activations{model->block(i, x.at(0), context)};
                         },
                     .begins_block = i > 0});
  chain.push_back({"head", [model](const Activations& x, const batch::MicroBatch&,
                                   const ForwardContext& context) {
                     return Activations{model->head(x.at(0), context)};
                   }});
  return chain;
}

}  // namespace accrue::models
