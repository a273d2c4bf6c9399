#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/forward_context.h"
#include "accrue/kernels/prepared_weight.h"
#include "accrue/kernels/recompute.h"
#include "accrue/models/adapter_options.h"
#include "kernels/blocks/block_matrix.h"
#include "models/layers/adapter.h"
#include "models/layers/parameter_builder.h"

namespace accrue::models {

/// An affine map with the prepared operands of its products, perhaps with an adapter.
struct Projection {
  std::string name = {};  ///< of the parameters, up to their ".weight"
  at::Tensor weight;      ///< [out, in], perhaps in blocks
  at::Tensor bias;        ///< undefined: none
  kernels::PreparedWeight prepared;
  std::optional<Adapter> adapter = {};

  at::Tensor operator()(const at::Tensor& x, const ForwardContext& context,
                        const kernels::Remake& remake_x = {});
  /// The sizes of its output and input.
  kernels::MatrixSize size() const { return kernels::matrix_size(weight); }
  /// Segment::weights of this layer.
  std::vector<at::Tensor> weights() const;

 private:
  at::Tensor adapted(const at::Tensor& x, const ForwardContext& context,
                     const kernels::Remake& remake_x);
};

/// The standard deviation of a transformer's weights before training.
inline constexpr double initial_deviation = 0.02;

/// The parameters `name`.weight [out, in] and, if it is `biased`, `name`.bias.
Projection make_projection(ParameterBuilder& builder, const std::string& name, std::int64_t in,
                           std::int64_t out, double deviation, bool biased = true);

/// The deviation of projections that add to the residual stream, as in GPT-2: each of the blocks
/// adds two.
double residual_deviation(std::int64_t layers);

/// Gives those of `projections` that the options' targets match an adapter with the trained
/// parameters NAME.lora_A.weight, NAME.lora_B.weight and, for DoRA, NAME.lora_magnitude_vector,
/// PEFT's names. The adapter of the i-th projection has dropout site `first_site` + i. Throws a
/// usage Error of `operation` if a pattern matches none of them or an option is out of range.
void attach_adapters(const char* operation, ParameterBuilder& builder,
                     const std::vector<Projection*>& projections, const AdapterOptions& options,
                     std::int64_t first_site);
/// The parameters of a language model. Its own are drawn first unless they stay zero; its adapters,
/// if there are any, begin at random wherever the other values come from.
NamedParameters with_adapters(const char* operation, ParameterBuilder& builder,
                              const std::vector<Projection*>& projections,
                              const AdapterOptions& options, std::int64_t first_site,
                              std::uint64_t seed);
/// Gives adapters the values with which they change nothing: b is 0, a magnitude its row's norm.
/// Call it when the weights have their values.
void restart_adapters(const std::vector<Projection*>& projections);

/// The most memory of packed weights if products read `activations`: Model::packed_weight_bytes.
std::int64_t packed_weight_bytes(const std::vector<Projection*>& projections,
                                 at::ScalarType activations);
void pack_weights(const std::vector<Projection*>& projections, bool wanted);

/// Segment::weights of these layers.
std::vector<at::Tensor> weights_of(const std::vector<Projection*>& projections);

/// The projections of all blocks; a block has projections().
template <class Block>
std::vector<Projection*> projections_of(std::vector<Block>& blocks) {
  std::vector<Projection*> all;
  for (Block& block : blocks)
    for (Projection* projection : block.projections()) all.push_back(projection);
  return all;
}

/// Recomputes norm(x) for an operation's backward if the pass recomputes selectively, else empty.
/// norm(x, out, context) is a normalisation.
template <class Norm>
kernels::Remake remake_norm(const Norm& norm, const at::Tensor& x, at::ScalarType out,
                            const ForwardContext& context) {
  if (context.recompute != Recompute::selective) return {};
  // The input is detached: what an operation keeps must not hold the graph before it.
  return [norm, input = x.detach(), out] { return norm(input, out, {}); };
}

}  // namespace accrue::models
