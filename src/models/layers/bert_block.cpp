#include "models/layers/bert_block.h"

#include <ATen/ATen.h>

#include "kernels/operations.h"

namespace accrue::models {

// ATen's operator is vectorised, and has no parameter whose gradient would need a slot.
at::Tensor exact_gelu(const at::Tensor& x) { return at::gelu(x, "none"); }

BertBlock make_bert_block(ParameterBuilder& builder, const std::string& name,
                          const BertOptions& options) {
  const std::int64_t width = options.width, ffn_width = options.ffn_width;
  const auto projection = [&](const char* part, std::int64_t in, std::int64_t out) {
    return make_projection(builder, name + part, in, out, initial_deviation);
  };
  const auto norm = [&](const char* part) {
    return make_norm(builder, name + part, width, options.norm_eps);
  };
  // Braces evaluate in order, so the parameters are registered in forward order.
  return {
      projection(".attention.self.qkv", width, 3 * width),
      projection(".attention.output.dense", width, width),
      norm(".attention.output.LayerNorm"),
      projection(".intermediate.dense", width, ffn_width),
      projection(".output.dense", ffn_width, width),
      norm(".output.LayerNorm"),
  };
}

at::Tensor BertBlock::operator()(const at::Tensor& x, const BlockOptions& options,
                                 const ForwardContext& context, std::int64_t first_site) {
  const kernels::Operations& kernels = kernels::operations_of(context);
  // The residual stream has the masters' dtype, which a norm's result is part of.
  const auto add_norm = [&](const at::Tensor& stream, const at::Tensor& branch, std::int64_t site,
                            const LayerNorm& norm) {
    return kernels.add_layer_norm(stream, kernels.dropout(branch, options.dropout, context, site),
                                  norm.weight, norm.bias, norm.eps, stream.scalar_type());
  };
  const at::Tensor packed = qkv(x.to(options.activations), context);
  const at::Tensor mixed =
      kernels.attention(packed, options.heads,
                        {.causal = false, .dropout = options.dropout, .site = first_site}, context);
  const auto [sum, attended] =
      add_norm(x, attention_out(mixed, context), first_site + 1, after_attention);
  const at::Tensor pre = mlp_in(attended.to(options.activations), context,
                                remake_norm(after_attention, sum, options.activations, context));
  const at::Tensor fed_forward =
      mlp_out(exact_gelu(pre), context, [pre = pre.detach()] { return exact_gelu(pre); });
  return add_norm(attended, fed_forward, first_site + 2, after_mlp).second;
}

}  // namespace accrue::models
