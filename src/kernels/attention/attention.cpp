#include "accrue/kernels/attention.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>

#include "accrue/core/error.h"
#include "kernels/aten_element.h"
#include "kernels/attention/attend.h"
#include "kernels/first_order.h"
#include "kernels/saved_value.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void expect_packed(const at::Tensor& qkv, std::int64_t heads) {
  if (heads < 1 || qkv.dim() != 3 || qkv.size(2) == 0 || qkv.size(2) % (3 * heads) != 0)
    throw usage_error("attention",
                      "qkv [B, T, 3 * C] with C a multiple of " + std::to_string(heads) + " heads",
                      std::to_string(qkv.dim()) + " dimensions, the last of " +
                          std::to_string(qkv.dim() == 0 ? 0 : qkv.size(-1)),
                      "a width that the number of heads divides");
}

void expect_grouped(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const GroupedAttentionOptions& options) {
  const std::int64_t heads = options.heads, kv_heads = options.kv_heads;
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    throw usage_error("grouped_attention", "kv_heads that divides heads",
                      std::to_string(kv_heads) + " for " + std::to_string(heads), "a divisor");
  const bool widths = q.dim() == 3 && q.size(2) > 0 && q.size(2) % heads == 0;
  const bool shapes = widths && k.dim() == 3 && k.size(0) == q.size(0) && k.size(1) == q.size(1) &&
                      k.size(2) == q.size(2) / heads * kv_heads && v.sizes() == k.sizes();
  if (shapes && k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type()) return;
  throw usage_error("grouped_attention",
                    "q [B, T, " + std::to_string(heads) + " * W], k and v [B, T, " +
                        std::to_string(kv_heads) + " * W] of one dtype",
                    "q " + text_of(q) + ", k " + text_of(k) + ", v " + text_of(v),
                    "projections of as many heads as the options say");
}

/// The parts of packed [B, T, 3 * C].
Projections packed_parts(const at::Tensor& qkv) {
  const std::int64_t channels = qkv.size(2) / 3;
  return {.q = qkv.narrow(2, 0, channels),
          .k = qkv.narrow(2, channels, channels),
          .v = qkv.narrow(2, 2 * channels, channels)};
}

struct Attention : torch::autograd::Function<Attention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& packed,
                            const AttentionPlan& plan) {
    const at::Tensor qkv = packed.contiguous();
    const Attended attended = attend(plan, packed_parts(qkv));
    context->saved_data["plan"] = to_saved(plan);
    context->save_for_backward(with_kept({qkv}, attended));
    return attended.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("attention");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const auto& plan = from_saved<AttentionPlan>(context->saved_data["plan"]);
    const at::Tensor grad_qkv = zeros_where_uncovered(plan, qkv.sizes(), qkv.options());
    Projections of_parts = packed_parts(grad_qkv);
    attend_backward(plan, packed_parts(qkv), {saved.begin() + 1, saved.end()},
                    grads[0].contiguous(), of_parts);
    return {grad_qkv, {}};
  }
};

struct GroupedAttention : torch::autograd::Function<GroupedAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const AttentionPlan& plan) {
    const Projections of{.q = q.contiguous(), .k = k.contiguous(), .v = v.contiguous()};
    const Attended attended = attend(plan, of);
    context->saved_data["plan"] = to_saved(plan);
    context->save_for_backward(with_kept({of.q, of.k, of.v}, attended));
    return attended.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("grouped_attention");
    const variable_list saved = context->get_saved_variables();
    const auto& plan = from_saved<AttentionPlan>(context->saved_data["plan"]);
    const auto room = [&](const at::Tensor& like) {
      return zeros_where_uncovered(plan, like.sizes(), like.options());
    };
    Projections result{.q = room(saved[0]), .k = room(saved[1]), .v = room(saved[2])};
    attend_backward(plan, {saved[0], saved[1], saved[2]}, {saved.begin() + 3, saved.end()},
                    grads[0].contiguous(), result);
    return {result.q, result.k, result.v, {}};
  }
};

}  // namespace

at::Tensor attention(const at::Tensor& qkv, std::int64_t heads, const AttentionOptions& options,
                     const ForwardContext& context) {
  expect_packed(qkv, heads);
  const GroupedAttentionOptions grouped{.heads = heads,
                                        .kv_heads = heads,
                                        .causal = options.causal,
                                        .dropout = options.dropout,
                                        .site = options.site};
  return Attention::apply(qkv, attention_plan("attention", grouped, context, qkv.size(0),
                                              qkv.size(1), qkv.size(2) / (3 * heads)));
}

at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const GroupedAttentionOptions& options,
                             const ForwardContext& context) {
  expect_grouped(q, k, v, options);
  return GroupedAttention::apply(q, k, v,
                                 attention_plan("grouped_attention", options, context, q.size(0),
                                                q.size(1), q.size(2) / options.heads));
}

}  // namespace accrue::kernels
