#include "transformer_block.h"

#include <ATen/ATen.h>

#include "accrue/kernels/attention.h"
#include "accrue/kernels/dropout.h"
#include "accrue/kernels/linear.h"
#include "accrue/kernels/norm.h"

namespace accrue::models {

at::Tensor LayerNorm::operator()(const at::Tensor& x, at::ScalarType out) const {
  return kernels::layer_norm(x, weight, bias, eps, out);
}

at::Tensor Projection::operator()(const at::Tensor& x) {
  return kernels::linear(x, weight, bias, copy);
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
  const at::Tensor attended = attention_out(kernels::attention(
      qkv(before(x, options.activations)), options.heads,
      {.causal = options.causal, .dropout = options.dropout, .site = first_site}, context));
  const auto [residual, normalised] = kernels::add_layer_norm(
      x, kernels::dropout(attended, options.dropout, context, first_site + 1), after.weight,
      after.bias, after.eps, options.activations);
  const at::Tensor fed_forward =
      kernels::mlp_gelu(normalised, mlp_in.weight, mlp_in.bias, mlp_in.copy, mlp_out.weight,
                        mlp_out.bias, mlp_out.copy);
  return residual + kernels::dropout(fed_forward, options.dropout, context, first_site + 2);
}

std::vector<Segment> transformer_segments(const TransformerParts& parts, std::int64_t blocks) {
  std::vector<Segment> chain;
  chain.push_back(
      {"embed", [embed = parts.embed](const Activations&, const batch::MicroBatch& micro,
                                      const ForwardContext& context) {
         return Activations{embed(micro, context)};
       }});
  for (std::int64_t i = 0; i < blocks; ++i)
    chain.push_back({"block." + std::to_string(i),
                     [block = parts.block, i](const Activations& x, const batch::MicroBatch&,
                                              const ForwardContext& context) {
                       return Activations{block(i, x.at(0), context)};
                     }});
  chain.push_back(
      {"head", [head = parts.head](const Activations& x, const batch::MicroBatch&,
                                   const ForwardContext&) { return Activations{head(x.at(0))}; }});
  return chain;
}

}  // namespace accrue::models
