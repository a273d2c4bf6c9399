#include "models/layers/transformer_block.h"

#include <ATen/ATen.h>

#include "kernels/operations.h"

namespace accrue::models {
namespace {

/// Attention of `packed` queries, keys and values [1, T, 3 * C], after those in the cache.
at::Tensor attend_behind(const at::Tensor& packed, std::int64_t heads,
                         kernels::KeyValueCache& cache) {
  const std::vector<at::Tensor> parts = packed.chunk(3, 2);
  return kernels::cached_attention(parts[0], parts[1], parts[2],
                                   {.heads = heads, .kv_heads = heads}, cache);
}

}  // namespace

at::Tensor LayerNorm::operator()(const at::Tensor& x, at::ScalarType out,
                                 const ForwardContext& context) const {
  return kernels::operations_of(context).layer_norm(x, weight, bias, eps, out);
}

LayerNorm make_norm(ParameterBuilder& builder, const std::string& name, std::int64_t width,
                    double eps) {
  return {builder.constant(name + ".weight", {width}, 1),
          builder.constant(name + ".bias", {width}, 0), eps};
}

at::Tensor TransformerBlock::feed_forward(const at::Tensor& x, const ForwardContext& context,
                                          const kernels::Remake& remake_x) {
  const kernels::Operations& kernels = kernels::operations_of(context);
  if (!mlp_in.adapter && !mlp_out.adapter)
    return kernels.mlp_gelu(x, mlp_in.weight, mlp_in.bias, mlp_in.prepared, mlp_out.weight,
                            mlp_out.bias, mlp_out.prepared,
                            {.remake_x = remake_x, .result_unread = context.result_unread});
  const at::Tensor pre = mlp_in(x, context, remake_x);
  return mlp_out(kernels.gelu(pre), context, [pre = pre.detach()] { return kernels::gelu(pre); });
}

at::Tensor TransformerBlock::operator()(const at::Tensor& x, const BlockOptions& options,
                                        const ForwardContext& context, std::int64_t first_site,
                                        kernels::KeyValueCache* cache) {
  const auto remake = [&](const LayerNorm& norm, const at::Tensor& input) {
    return remake_norm(norm, input, options.activations, context);
  };
  const kernels::Operations& kernels = kernels::operations_of(context);
  const auto [stream, attending] =
      kernels.branch_layer_norm(x, before.weight, before.bias, before.eps, options.activations);
  const at::Tensor packed = qkv(attending, context, remake(before, x));
  const at::Tensor mixed =
      cache != nullptr
          ? attend_behind(packed, options.heads, *cache)
          : kernels.attention(
                packed, options.heads,
                {.causal = options.causal, .dropout = options.dropout, .site = first_site},
                context);
  const at::Tensor attended = attention_out(mixed, context);
  const auto [residual, normalised] = kernels.add_layer_norm(
      stream, kernels.dropout(attended, options.dropout, context, first_site + 1), after.weight,
      after.bias, after.eps, options.activations);
  const at::Tensor fed_forward = feed_forward(normalised, context, remake(after, residual));
  return kernels.add_dropout(residual, fed_forward, options.dropout, context, first_site + 2);
}

}  // namespace accrue::models
