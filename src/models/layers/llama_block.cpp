#include "models/layers/llama_block.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kernels/operations.h"

namespace accrue::models {
namespace {

/// x [B, T, heads * W], each head normalised separately if there is a norm.
at::Tensor by_head(const RmsNorm& norm, const at::Tensor& x, std::int64_t heads,
                   const ForwardContext& context) {
  if (!norm) return x;
  return norm(x.unflatten(-1, {heads, x.size(-1) / heads}), x.scalar_type(), context).flatten(-2);
}

}  // namespace

at::Tensor RmsNorm::operator()(const at::Tensor& x, at::ScalarType out,
                               const ForwardContext& context) const {
  return kernels::operations_of(context).rms_norm(x, weight, options, out);
}

RmsNorm make_rms_norm(ParameterBuilder& builder, const std::string& name, std::int64_t width,
                      const LlamaVariant& variant) {
  const double offset = variant.offset_norms ? 1 : 0;
  return {builder.constant(name + ".weight", {width}, 1 - offset),
          {.eps = variant.norm_eps, .offset = offset}};
}

LlamaBlock make_llama_block(ParameterBuilder& builder, const LlamaOptions& options,
                            std::int64_t index) {
  const std::string name = "model.layers." + std::to_string(index);
  const std::string attention = name + ".self_attn.", mlp = name + ".mlp.";
  const LlamaVariant& variant = options.variant;
  const std::int64_t width = options.width;
  const std::int64_t q_width = options.heads * options.head_width,
                     kv_width = options.kv_heads * options.head_width;
  const double into_residual = residual_deviation(options.layers);
  const auto norm = [&](const std::string& of, std::int64_t of_width) {
    return make_rms_norm(builder, of, of_width, variant);
  };
  // The parameters are registered in forward order.
  LlamaBlock block;
  block.before_attention = norm(name + ".input_layernorm", width);
  block.q = make_projection(builder, attention + "q_proj", width, q_width, initial_deviation,
                            variant.qkv_bias);
  block.k = make_projection(builder, attention + "k_proj", width, kv_width, initial_deviation,
                            variant.qkv_bias);
  block.v = make_projection(builder, attention + "v_proj", width, kv_width, initial_deviation,
                            variant.qkv_bias);
  if (variant.qk_norm) {
    block.q_norm = norm(attention + "q_norm", options.head_width);
    block.k_norm = norm(attention + "k_norm", options.head_width);
  }
  block.attention_out = make_projection(builder, attention + "o_proj", q_width, width,
                                        into_residual, variant.output_bias);
  if (variant.post_norms) block.after_attention = norm(name + ".post_attention_layernorm", width);
  // The name of this norm without post-norms belongs to another one with them.
  block.before_mlp =
      norm(name + (variant.post_norms ? ".pre_feedforward_layernorm" : ".post_attention_layernorm"),
           width);
  block.gate = make_projection(builder, mlp + "gate_proj", width, options.ffn_width,
                               initial_deviation, /*biased=*/false);
  block.up = make_projection(builder, mlp + "up_proj", width, options.ffn_width, initial_deviation,
                             /*biased=*/false);
  block.down = make_projection(builder, mlp + "down_proj", options.ffn_width, width, into_residual,
                               /*biased=*/false);
  if (variant.post_norms) block.after_mlp = norm(name + ".post_feedforward_layernorm", width);
  block.is_local = variant.is_local(index);
  return block;
}

at::Tensor LlamaBlock::attend(const at::Tensor& x, const at::Tensor& normalised,
                              const LlamaOptions& options, const RotaryTables& rotary,
                              const ForwardContext& context, std::int64_t site,
                              kernels::KeyValueCache* cache) {
  const kernels::Operations& kernels = kernels::operations_of(context);
  const LlamaVariant& variant = options.variant;
  const kernels::Remake remake =
      remake_norm(before_attention, x, normalised.scalar_type(), context);
  const auto rotated = [&](Projection& projection, const RmsNorm& norm, std::int64_t heads) {
    const at::Tensor projected = projection(normalised, context, remake);
    return kernels.rotate(by_head(norm, projected, heads, context), heads, rotary.cosines,
                          rotary.sines, context.spans);
  };
  const kernels::GroupedAttentionOptions attention{
      .heads = options.heads,
      .kv_heads = options.kv_heads,
      .window = is_local ? variant.window : 0,
      .soft_cap = variant.attention_soft_cap,
      .scale = variant.query_scalar == 0 ? 0 : 1 / std::sqrt(variant.query_scalar),
      .dropout = options.dropout,
      .site = site};
  const at::Tensor queries = rotated(q, q_norm, options.heads),
                   keys = rotated(k, k_norm, options.kv_heads),
                   values = v(normalised, context, remake);
  if (cache != nullptr) return kernels::cached_attention(queries, keys, values, attention, *cache);
  return kernels.grouped_attention(queries, keys, values, attention, context);
}

at::Tensor LlamaBlock::feed_forward(const at::Tensor& x, const LlamaOptions& options,
                                    const ForwardContext& context,
                                    const kernels::Remake& remake_x) {
  const kernels::Operations& kernels = kernels::operations_of(context);
  const kernels::GateActivation activation = options.variant.activation;
  if (!gate.adapter && !up.adapter && !down.adapter)
    return kernels.mlp_gated(x, gate.weight, gate.prepared, up.weight, up.prepared, down.weight,
                             down.prepared,
                             {.activation = activation,
                              .remake_x = remake_x,
                              // A norm after it reads it for its own backward.
                              .result_unread = context.result_unread && !after_mlp});
  const at::Tensor opening = gate(x, context, remake_x), through = up(x, context, remake_x);
  return down(kernels.gate(activation, opening, through), context,
              [activation, opening = opening.detach(), through = through.detach()] {
                return kernels::gate(activation, opening, through);
              });
}

at::Tensor LlamaBlock::operator()(const at::Tensor& x, const LlamaOptions& options,
                                  const RotaryTables& rotary, at::ScalarType activations,
                                  const ForwardContext& context, std::int64_t first_site,
                                  kernels::KeyValueCache* cache) {
  const kernels::Operations& kernels = kernels::operations_of(context);
  const auto [stream, attending] =
      kernels.branch_rms_norm(x, before_attention.weight, before_attention.options, activations);
  at::Tensor attended =
      attention_out(attend(x, attending, options, rotary, context, first_site, cache), context);
  if (after_attention) attended = after_attention(attended, activations, context);
  const auto [residual, normalised] = kernels.add_rms_norm(
      stream, kernels.dropout(attended, options.dropout, context, first_site + 1),
      before_mlp.weight, before_mlp.options, activations);
  at::Tensor fed_forward = feed_forward(normalised, options, context,
                                        remake_norm(before_mlp, residual, activations, context));
  if (after_mlp) fed_forward = after_mlp(fed_forward, activations, context);
  return kernels.add_dropout(residual, fed_forward, options.dropout, context, first_site + 2);
}

}  // namespace accrue::models
