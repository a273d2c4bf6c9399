#include "accrue/kernels/attention.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/attention/attention_bf16.h"
#include "kernels/attention/attention_simd.h"
#include "kernels/first_order.h"
#include "kernels/saved_value.h"
#include "kernels/spans.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* name = "attention";

/// What is attended with what, besides the projections.
struct AttentionPlan {
  bool causal;
  std::int64_t heads;
  std::vector<SampleSpan> spans;
  std::vector<DropoutMask> masks;  ///< one for each span, or none
};

void expect_arguments(const at::Tensor& qkv, std::int64_t heads, double dropout) {
  expect_on_cpu(qkv, name);
  if (heads < 1 || qkv.dim() != 3 || qkv.size(2) == 0 || qkv.size(2) % (3 * heads) != 0)
    throw usage_error(name,
                      "qkv [B, T, 3 * C] with C a multiple of " + std::to_string(heads) + " heads",
                      std::to_string(qkv.dim()) + " dimensions, the last of " +
                          std::to_string(qkv.dim() == 0 ? 0 : qkv.size(-1)),
                      "a width that the number of heads divides");
  if (!(dropout >= 0 && dropout < 1))
    throw usage_error(name, "a dropout in [0, 1)", std::to_string(dropout), "a value such as 0.1");
}

AttentionPlan plan_of(const at::Tensor& qkv, std::int64_t heads, const AttentionOptions& options,
                      const ForwardContext& context) {
  const std::int64_t rows = qkv.size(0), length = qkv.size(1);
  AttentionPlan plan{.causal = options.causal, .heads = heads, .spans = {}, .masks = {}};
  if (!context.training || options.dropout == 0) {
    plan.spans = spans_or_rows(name, context.spans, rows, length);
    return plan;
  }
  plan.spans = named_spans(name, context, rows, length);
  const DropoutSite site{options.dropout, context.seed, context.window, options.site};
  for (const SampleSpan& span : plan.spans) plan.masks.push_back(sample_mask(site, span.sample_id));
  return plan;
}

/// Where the parts of a head lie in [B, T, parts * C].
struct Shape {
  std::int64_t length, heads, width;

  std::int64_t channels() const { return heads * width; }
  /// Where part 0 (q, or the output), 1 (k) or 2 (v) of packed [B, T, parts * C] begins, in
  /// elements.
  std::int64_t offset(const SampleSpan& span, std::int64_t head, std::int64_t part,
                      std::int64_t parts) const {
    return ((span.row * length + span.begin) * parts + part) * channels() + head * width;
  }
  /// Where a head's sums of a span begin in [B, heads, T].
  std::int64_t sums_offset(const SampleSpan& span, std::int64_t head) const {
    return (span.row * heads + head) * length + span.begin;
  }
};

Shape shape_of(const at::Tensor& qkv, std::int64_t heads) {
  return {.length = qkv.size(1), .heads = heads, .width = qkv.size(2) / (3 * heads)};
}

/// Memory for a tensor [B, T, ...] of which only the spans are written; zeros where spans leave
/// gaps.
at::Tensor zeros_where_uncovered(const AttentionPlan& plan, at::IntArrayRef sizes,
                                 const at::TensorOptions& options) {
  const bool whole = covered(plan.spans) == sizes[0] * sizes[1];
  return whole ? at::empty(sizes, options) : at::zeros(sizes, options);
}

/// Calls body(span, head, mask, scratch) for every head of every span, each in one thread, with one
/// scratch a thread. It goes head by head, so that spans of unequal length fall to the threads
/// alike.
template <class Body>
void for_each_head(const AttentionPlan& plan, std::size_t scratch_elements,
                   const at::TensorOptions& options, Body body) {
  const auto spans = static_cast<std::int64_t>(plan.spans.size());
  at::parallel_for(0, spans * plan.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    at::Tensor scratch = at::empty({static_cast<std::int64_t>(scratch_elements)}, options);
    for (std::int64_t task = begin; task < end; ++task) {
      const auto index = static_cast<std::size_t>(task % spans);
      const std::int64_t head = task / spans;
      const DropoutMask mask =
          plan.masks.empty() ? DropoutMask{} : head_mask(plan.masks[index], head);
      body(plan.spans[index], head, plan.masks.empty() ? nullptr : &mask,
           scratch.mutable_data_ptr());
    }
  });
}

/// The kernels that work on a head of one dtype.
struct HeadKernels {
  void (*forward)(const rows::HeadForward&);
  void (*backward)(const rows::HeadBackward&);
  std::size_t (*forward_scratch)(std::size_t length, std::size_t width);
  std::size_t (*backward_scratch)(std::size_t length, std::size_t width);
};

HeadKernels kernels_for(at::ScalarType dtype) {
  if (dtype == at::kBFloat16 && bf16_attention::available())
    return {bf16_attention::head_forward, bf16_attention::head_backward,
            bf16_attention::head_forward_scratch, bf16_attention::head_backward_scratch};
  return {rows::head_forward, rows::head_backward, rows::head_forward_scratch,
          rows::head_backward_scratch};
}

rows::Head head_of(const AttentionPlan& plan, const at::Tensor& qkv, const SampleSpan& span,
                   std::int64_t head, const DropoutMask* mask) {
  const Shape shape = shape_of(qkv, plan.heads);
  return {
      .type = element_of(qkv.scalar_type(), name),
      .causal = plan.causal,
      .length = static_cast<std::size_t>(span.end - span.begin),
      .width = static_cast<std::size_t>(shape.width),
      .q = element(qkv, shape.offset(span, head, 0, 3)),
      .k = element(qkv, shape.offset(span, head, 1, 3)),
      .v = element(qkv, shape.offset(span, head, 2, 3)),
      .stride = static_cast<std::size_t>(3 * shape.channels()),
      .mask = mask,
  };
}

/// Floating-point operations of `products` matrix products of a head's scores; a causal head works
/// on half of them.
std::int64_t flops_of(const AttentionPlan& plan, const Shape& shape, std::int64_t products) {
  std::int64_t scores = 0;
  for (const SampleSpan& span : plan.spans)
    scores += (span.end - span.begin) * (span.end - span.begin);
  return products * 2 * scores * shape.channels() / (plan.causal ? 2 : 1);
}

struct Attention : torch::autograd::Function<Attention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& packed,
                            const AttentionPlan& plan) {
    const at::Tensor qkv = packed.contiguous();
    const Shape shape = shape_of(qkv, plan.heads);
    const at::TensorOptions sums = qkv.options().dtype(accumulation_dtype(qkv.scalar_type()));
    at::Tensor out =
        zeros_where_uncovered(plan, {qkv.size(0), shape.length, shape.channels()}, qkv.options());
    at::Tensor log_sums = at::empty({qkv.size(0), plan.heads, shape.length}, sums);
    RECORD_FUNCTION("accrue::attention", span_of({qkv, out, log_sums}, flops_of(plan, shape, 2)));
    const HeadKernels kernels = kernels_for(qkv.scalar_type());
    const std::size_t scratch_elements = kernels.forward_scratch(
        static_cast<std::size_t>(longest(plan.spans)), static_cast<std::size_t>(shape.width));
    for_each_head(
        plan, scratch_elements, sums,
        [&](const SampleSpan& span, std::int64_t head, const DropoutMask* mask, void* scratch) {
          kernels.forward({
              .head = head_of(plan, qkv, span, head, mask),
              .out = element(out, shape.offset(span, head, 0, 1)),
              .out_stride = static_cast<std::size_t>(shape.channels()),
              .log_sums = element(log_sums, shape.sums_offset(span, head)),
              .scratch = scratch,
          });
        });
    context->saved_data["plan"] = to_saved(plan);
    context->save_for_backward({qkv, log_sums});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order(name);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &log_sums = saved[1];
    const auto& plan = from_saved<AttentionPlan>(context->saved_data["plan"]);
    const at::Tensor grad_out = grads[0].contiguous();
    const Shape shape = shape_of(qkv, plan.heads);
    at::Tensor grad_qkv = zeros_where_uncovered(plan, qkv.sizes(), qkv.options());
    RECORD_FUNCTION("accrue::attention_backward",
                    span_of({qkv, log_sums, grad_out, grad_qkv}, flops_of(plan, shape, 5)));
    const HeadKernels kernels = kernels_for(qkv.scalar_type());
    const std::size_t scratch_elements = kernels.backward_scratch(
        static_cast<std::size_t>(longest(plan.spans)), static_cast<std::size_t>(shape.width));
    for_each_head(
        plan, scratch_elements, log_sums.options(),
        [&](const SampleSpan& span, std::int64_t head, const DropoutMask* mask, void* scratch) {
          kernels.backward({
              .head = head_of(plan, qkv, span, head, mask),
              .grad_out = element(grad_out, shape.offset(span, head, 0, 1)),
              .grad_out_stride = static_cast<std::size_t>(shape.channels()),
              .log_sums = element(log_sums, shape.sums_offset(span, head)),
              .grad_q = element(grad_qkv, shape.offset(span, head, 0, 3)),
              .grad_k = element(grad_qkv, shape.offset(span, head, 1, 3)),
              .grad_v = element(grad_qkv, shape.offset(span, head, 2, 3)),
              .scratch = scratch,
          });
        });
    return {grad_qkv, {}};
  }
};

}  // namespace

at::Tensor attention(const at::Tensor& qkv, std::int64_t heads, const AttentionOptions& options,
                     const ForwardContext& context) {
  expect_arguments(qkv, heads, options.dropout);
  return Attention::apply(qkv, plan_of(qkv, heads, options, context));
}

}  // namespace accrue::kernels
