#include "kernels/attention/attend.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "accrue/core/error.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/attention/attention_bf16.h"
#include "kernels/attention/attention_simd.h"
#include "kernels/backend.h"
#include "kernels/cpu_passes.h"
#include "kernels/spans.h"

namespace accrue::kernels {
namespace {

/// Elements between a tensor's positions. A dimension of size one has no defined stride.
std::int64_t position_stride(const at::Tensor& in) {
  return in.size(1) == 1 ? in.stride(0) : in.stride(1);
}

/// The positions of the parts of heads.
struct Shape {
  std::int64_t length, heads, group, width;

  static Shape of(const AttentionPlan& plan, const at::Tensor& q) {
    return {.length = q.size(1),
            .heads = plan.options.heads,
            .group = plan.options.heads / plan.options.kv_heads,
            .width = q.size(2) / plan.options.heads};
  }
  /// The offset of a head in [B, T, heads of this kind * width], in elements.
  std::int64_t offset(const SampleSpan& span, std::int64_t head, const at::Tensor& in) const {
    return (span.row * length + span.begin) * position_stride(in) + head * width;
  }
  /// The offset of a head's sums for a span in [B, heads, T].
  std::int64_t sums_offset(const SampleSpan& span, std::int64_t head) const {
    return (span.row * heads + head) * length + span.begin;
  }
};

/// Heads of queries, [first, first + count), that share one head of keys and values.
struct Task {
  const SampleSpan& span;
  std::int64_t kv_head, first, count;
  const DropoutMask* masks;  ///< of these heads; null: everything is kept
  void* scratch;
};

std::vector<DropoutMask> masks_of(const AttentionPlan& plan, std::size_t span, std::int64_t first,
                                  std::int64_t count) {
  std::vector<DropoutMask> masks;
  if (plan.masks.empty()) return masks;
  for (std::int64_t head = first; head < first + count; ++head)
    masks.push_back(head_mask(plan.masks[span], head));
  return masks;
}

/// Calls body(task) for every head of every span, each in one thread, with one scratch per thread;
/// a task has `count` heads of queries. It proceeds head by head, so that threads get equal shares
/// of spans of unequal length.
template <class Body>
void for_each_task(const AttentionPlan& plan, std::int64_t count, std::size_t scratch_elements,
                   const at::TensorOptions& options, Body body) {
  const auto spans = static_cast<std::int64_t>(plan.spans.size());
  const std::int64_t heads = plan.options.heads, group = heads / plan.options.kv_heads;
  at::parallel_for(0, spans * (heads / count), 1, [&](std::int64_t begin, std::int64_t end) {
    at::Tensor scratch = at::empty({static_cast<std::int64_t>(scratch_elements)}, options);
    for (std::int64_t index = begin; index < end; ++index) {
      const auto span = static_cast<std::size_t>(index % spans);
      const std::int64_t first = index / spans * count;
      const std::vector<DropoutMask> masks = masks_of(plan, span, first, count);
      body(Task{.span = plan.spans[span],
                .kv_head = first / group,
                .first = first,
                .count = count,
                .masks = masks.empty() ? nullptr : masks.data(),
                .scratch = scratch.mutable_data_ptr()});
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

constexpr HeadKernels widening_kernels{rows::head_forward, rows::head_backward,
                                       rows::head_forward_scratch, rows::head_backward_scratch};
constexpr HeadKernels bf16_kernels{bf16_attention::head_forward, bf16_attention::head_backward,
                                   bf16_attention::head_forward_scratch,
                                   bf16_attention::head_backward_scratch};

/// Those with bf16 products do not support soft caps, which one family of models has and which
/// would cost them a tangent per score in both passes.
const HeadKernels& kernels_for(const AttentionPlan& plan, at::ScalarType dtype) {
  const bool narrow =
      dtype == at::kBFloat16 && plan.options.soft_cap == 0 && bf16_attention::available();
  return narrow ? bf16_kernels : widening_kernels;
}

rows::Head head_of(const AttentionPlan& plan, const Projections& of, const Task& task) {
  const Shape shape = Shape::of(plan, of.q);
  return {
      .type = element_of(of.q.scalar_type(), "attention"),
      .causal = plan.options.causal,
      .length = static_cast<std::size_t>(task.span.end - task.span.begin),
      .width = static_cast<std::size_t>(shape.width),
      .group = static_cast<std::size_t>(task.count),
      .window = static_cast<std::size_t>(plan.options.window),
      .scale = plan.options.scale,
      .soft_cap = plan.options.soft_cap,
      .q = element(of.q, shape.offset(task.span, task.first, of.q)),
      .k = element(of.k, shape.offset(task.span, task.kv_head, of.k)),
      .v = element(of.v, shape.offset(task.span, task.kv_head, of.v)),
      .q_stride = static_cast<std::size_t>(position_stride(of.q)),
      .kv_stride = static_cast<std::size_t>(position_stride(of.k)),
      .masks = task.masks,
  };
}

/// Twice the number of pairs of a query and a key that it sees, for a sample of `length` positions;
/// a causal query sees about half of what the length and the window allow.
std::int64_t twice_the_pairs(const GroupedAttentionOptions& options, std::int64_t length) {
  if (!options.causal) return 2 * length * length;
  const std::int64_t hidden =
      options.window == 0 ? 0 : std::max<std::int64_t>(0, length - options.window);
  return length * length - hidden * hidden;
}

/// Floating-point operations of `products` matrix products of all scores.
std::int64_t flops_of(const AttentionPlan& plan, const Shape& shape, std::int64_t products) {
  std::int64_t twice = 0;
  for (const SampleSpan& span : plan.spans)
    twice += twice_the_pairs(plan.options, span.end - span.begin);
  return products * twice * shape.heads * shape.width;
}

void expect_plan(const char* operation, const GroupedAttentionOptions& options) {
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw usage_error(operation, "a dropout in [0, 1)", std::to_string(options.dropout),
                      "a value such as 0.1");
  if (options.window < 0 || (options.window > 0 && !options.causal))
    throw usage_error(operation, "a window of 0 or more keys, and 0 unless attention is causal",
                      std::to_string(options.window), "0, with which a query sees all keys");
  for (const double value : {options.soft_cap, options.scale})
    if (!(value >= 0 && std::isfinite(value)))
      throw usage_error(operation, "a soft cap and a scale that are finite and not negative",
                        std::to_string(value), "0, for no cap and 1 / sqrt(width)");
}

}  // namespace

AttentionPlan attention_plan(const char* operation, const GroupedAttentionOptions& options,
                             const ForwardContext& context, std::int64_t rows, std::int64_t length,
                             std::int64_t width) {
  expect_plan(operation, options);
  AttentionPlan plan{.options = options, .spans = {}, .masks = {}};
  if (options.scale == 0) plan.options.scale = 1 / std::sqrt(static_cast<double>(width));
  if (!context.training || options.dropout == 0) {
    plan.spans = spans_or_rows(operation, context.spans, rows, length);
    return plan;
  }
  plan.spans = named_spans(operation, context, rows, length);
  const DropoutSite site{options.dropout, context.seed, context.window, options.site};
  for (const SampleSpan& span : plan.spans) plan.masks.push_back(sample_mask(site, span.sample_id));
  return plan;
}

at::Tensor zeros_where_uncovered(const AttentionPlan& plan, at::IntArrayRef sizes,
                                 const at::TensorOptions& options) {
  const bool whole = covered(plan.spans) == sizes[0] * sizes[1];
  return whole ? at::empty(sizes, options) : at::zeros(sizes, options);
}

std::vector<at::Tensor> with_kept(std::vector<at::Tensor> inputs, const Attended& attended) {
  inputs.insert(inputs.end(), attended.kept.begin(), attended.kept.end());
  return inputs;
}

Attended attend(const AttentionPlan& plan, const Projections& of) {
  return backend_of(of.q).attend(plan, of);
}

void attend_backward(const AttentionPlan& plan, const Projections& of,
                     const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                     Projections& grads) {
  backend_of(of.q).attend_backward(plan, of, kept, grad_out, grads);
}

Attended cpu::attend(const AttentionPlan& plan, const Projections& of) {
  const Shape shape = Shape::of(plan, of.q);
  const at::TensorOptions sums = of.q.options().dtype(accumulation_dtype(of.q.scalar_type()));
  at::Tensor log_sums = at::empty({of.q.size(0), shape.heads, shape.length}, sums);
  Attended result{.out = zeros_where_uncovered(plan, of.q.sizes(), of.q.options()),
                  .kept = {log_sums}};
  RECORD_FUNCTION("accrue::attention",
                  span_of({of.q, of.k, of.v, result.out, log_sums}, flops_of(plan, shape, 2)));
  const HeadKernels& kernels = kernels_for(plan, of.q.scalar_type());
  const auto longest_span = static_cast<std::size_t>(longest(plan.spans));
  // Heads of a group need not be in one task: if there are too few groups for all threads, each
  // head is a task.
  const bool few =
      static_cast<std::int64_t>(plan.spans.size()) * plan.options.kv_heads < at::get_num_threads();
  for_each_task(plan, few ? 1 : shape.group,
                kernels.forward_scratch(longest_span, static_cast<std::size_t>(shape.width)), sums,
                [&](const Task& task) {
                  kernels.forward({
                      .head = head_of(plan, of, task),
                      .out = element(result.out, shape.offset(task.span, task.first, result.out)),
                      .out_stride = static_cast<std::size_t>(position_stride(result.out)),
                      .log_sums = element(log_sums, shape.sums_offset(task.span, task.first)),
                      .log_sums_stride = static_cast<std::size_t>(shape.length),
                      .scratch = task.scratch,
                  });
                });
  return result;
}

void cpu::attend_backward(const AttentionPlan& plan, const Projections& of,
                          const std::vector<at::Tensor>& kept, const at::Tensor& grad_out,
                          Projections& grads) {
  const at::Tensor& log_sums = kept.at(0);
  const Shape shape = Shape::of(plan, of.q);
  RECORD_FUNCTION("accrue::attention_backward",
                  span_of({of.q, of.k, of.v, log_sums, grad_out, grads.q, grads.k, grads.v},
                          flops_of(plan, shape, 5)));
  const HeadKernels& kernels = kernels_for(plan, of.q.scalar_type());
  const auto longest_span = static_cast<std::size_t>(longest(plan.spans));
  for_each_task(plan, shape.group,
                kernels.backward_scratch(longest_span, static_cast<std::size_t>(shape.width)),
                log_sums.options(), [&](const Task& task) {
                  kernels.backward({
                      .head = head_of(plan, of, task),
                      .grad_out = element(grad_out, shape.offset(task.span, task.first, grad_out)),
                      .grad_out_stride = static_cast<std::size_t>(position_stride(grad_out)),
                      .log_sums = element(log_sums, shape.sums_offset(task.span, task.first)),
                      .log_sums_stride = static_cast<std::size_t>(shape.length),
                      .grad_q = element(grads.q, shape.offset(task.span, task.first, grads.q)),
                      .grad_k = element(grads.k, shape.offset(task.span, task.kv_head, grads.k)),
                      .grad_v = element(grads.v, shape.offset(task.span, task.kv_head, grads.v)),
                      .scratch = task.scratch,
                  });
                });
}

}  // namespace accrue::kernels
