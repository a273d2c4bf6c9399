#include "models/layers/transformer_block.h"

#include <ATen/ATen.h>

#include <array>

#include "kernels/operations.h"

namespace accrue::models {
namespace {

kernels::Remake remake_of(const LayerNorm& norm, const at::Tensor& x, at::ScalarType out) {
  // The input is detached: what an operation keeps must not hold the graph before it.
  return [norm, input = x.detach(), out] { return norm(input, out, {}); };
}

template <class Block>
auto projections_of(Block& block) {
  return std::array{&block.qkv, &block.attention_out, &block.mlp_in, &block.mlp_out};
}

}  // namespace

at::Tensor LayerNorm::operator()(const at::Tensor& x, at::ScalarType out,
                                 const ForwardContext& context) const {
  return kernels::operations_of(context).layer_norm(x, weight, bias, eps, out);
}

at::Tensor Projection::operator()(const at::Tensor& x, const ForwardContext& context,
                                  const kernels::Remake& remake_x) {
  return kernels::operations_of(context).linear(x, weight, bias, prepared, remake_x);
}

LayerNorm make_norm(ParameterBuilder& builder, const std::string& name, std::int64_t width,
                    double eps) {
  return {builder.constant(name + ".weight", {width}, 1),
          builder.constant(name + ".bias", {width}, 0), eps};
}

Projection make_projection(ParameterBuilder& builder, const std::string& name, std::int64_t in,
                           std::int64_t out, double deviation) {
  return {builder.normal(name + ".weight", {out, in}, deviation),
          builder.constant(name + ".bias", {out}, 0),
          {}};
}

at::Tensor TransformerBlock::operator()(const at::Tensor& x, const BlockOptions& options,
                                        const ForwardContext& context, std::int64_t first_site) {
  const auto remake = [&](const LayerNorm& norm, const at::Tensor& input) {
    return context.recompute == Recompute::selective ? remake_of(norm, input, options.activations)
                                                     : kernels::Remake{};
  };
  const kernels::Operations& kernels = kernels::operations_of(context);
  const auto [stream, attending] =
      kernels.branch_layer_norm(x, before.weight, before.bias, before.eps, options.activations);
  const at::Tensor attended = attention_out(
      kernels.attention(qkv(attending, context, remake(before, x)), options.heads,
                        {.causal = options.causal, .dropout = options.dropout, .site = first_site},
                        context),
      context);
  const auto [residual, normalised] = kernels.add_layer_norm(
      stream, kernels.dropout(attended, options.dropout, context, first_site + 1), after.weight,
      after.bias, after.eps, options.activations);
  const at::Tensor fed_forward = kernels.mlp_gelu(
      normalised, mlp_in.weight, mlp_in.bias, mlp_in.prepared, mlp_out.weight, mlp_out.bias,
      mlp_out.prepared,
      {.remake_x = remake(after, residual), .result_unread = context.result_unread});
  return kernels.add_dropout(residual, fed_forward, options.dropout, context, first_site + 2);
}

std::int64_t packed_weight_bytes(const std::vector<TransformerBlock>& blocks,
                                 at::ScalarType activations) {
  constexpr std::int64_t operands = 2;  // the forward one and the data gradient's
  std::int64_t elements = 0;
  for (const TransformerBlock& block : blocks)
    for (const Projection* p : projections_of(block)) elements += p->weight.numel();
  return operands * elements * static_cast<std::int64_t>(c10::elementSize(activations));
}

void pack_weights(std::vector<TransformerBlock>& blocks, bool wanted) {
  for (TransformerBlock& block : blocks)
    for (Projection* p : projections_of(block)) p->prepared.pack(wanted);
}

}  // namespace accrue::models
