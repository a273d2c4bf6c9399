#include "kernels/foreign/foreign_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/attention/attend.h"
#include "kernels/first_order.h"
#include "kernels/foreign/gradients_with_graph.h"
#include "kernels/saved_value.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* attention_name = "scaled_dot_product_attention";

/// Whether the parts of [B, T, heads * W] are those of one dense tensor [B, T, 3 * heads * W].
bool are_packed(const Projections& of) {
  const std::int64_t width = of.q.size(2), length = of.q.size(1);
  if (of.k.size(2) != width) return false;
  const auto* start = static_cast<const char*>(of.q.const_data_ptr());
  const std::int64_t part_bytes = width * of.q.element_size();
  for (const at::Tensor* part : {&of.q, &of.k, &of.v}) {
    if (part->const_data_ptr() != start || part->stride(2) != 1 || part->stride(1) != 3 * width ||
        part->stride(0) != length * 3 * width)
      return false;
    start += part_bytes;
  }
  return true;
}

Projections projections_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const Projections of{.q = as_positions(q), .k = as_positions(k), .v = as_positions(v)};
  if (are_packed(of)) return of;
  return {.q = of.q.contiguous(), .k = of.k.contiguous(), .v = of.v.contiguous()};
}

Projections room_for_gradients(const Projections& of) {
  if (!are_packed(of))
    return {.q = at::empty_like(of.q), .k = at::empty_like(of.k), .v = at::empty_like(of.v)};
  const std::int64_t width = of.q.size(2);
  const at::Tensor packed = at::empty({of.q.size(0), of.q.size(1), 3 * width}, of.q.options());
  return {.q = packed.narrow(2, 0, width),
          .k = packed.narrow(2, width, width),
          .v = packed.narrow(2, 2 * width, width)};
}

variable_list attention_with_graph(const variable_list& inputs, const at::Tensor& upstream,
                                   const GroupedAttentionOptions& options) {
  if (options.dropout > 0) expect_first_order(attention_name);
  return gradients_with_graph(inputs, upstream, [&](const variable_list& parts) {
    const at::Tensor heads = std::get<0>(at::_scaled_dot_product_attention_math(
        parts[0], parts[1], parts[2], /*attn_mask=*/{}, /*dropout_p=*/0, options.causal,
        /*dropout_mask=*/{}, options.scale, options.heads != options.kv_heads));
    return as_positions(heads);
  });
}

struct ForeignAttention : torch::autograd::Function<ForeignAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const AttentionPlan& plan) {
    const Attended attended = attend(plan, projections_of(q, k, v));
    context->saved_data["plan"] = to_saved(plan);
    context->save_for_backward(with_kept({q, k, v}, attended));
    return attended.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const auto& plan = from_saved<AttentionPlan>(context->saved_data["plan"]);
    if (at::GradMode::is_enabled()) {
      variable_list gradients =
          attention_with_graph({saved[0], saved[1], saved[2]}, grads[0], plan.options);
      gradients.emplace_back();
      return gradients;
    }
    const Projections of = projections_of(saved[0], saved[1], saved[2]);
    Projections result = room_for_gradients(of);
    attend_backward(plan, of, {saved.begin() + 3, saved.end()}, grads[0].contiguous(), result);
    return {as_heads(result.q, plan.options.heads),
            as_heads(result.k, plan.options.kv_heads),
            as_heads(result.v, plan.options.kv_heads),
            {}};
  }
};

}  // namespace

at::Tensor as_positions(const at::Tensor& heads) {
  return heads.transpose(1, 2).reshape({heads.size(0), heads.size(2), -1});
}

at::Tensor as_heads(const at::Tensor& positions, std::int64_t heads) {
  return positions.view({positions.size(0), positions.size(1), heads, -1}).transpose(1, 2);
}

at::Tensor foreign_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const GroupedAttentionOptions& options,
                             const ForwardContext& context) {
  const AttentionPlan plan =
      attention_plan(attention_name, options, context, q.size(0), q.size(2), q.size(3));
  return as_heads(ForeignAttention::apply(q, k, v, plan), options.heads);
}

}  // namespace accrue::kernels
