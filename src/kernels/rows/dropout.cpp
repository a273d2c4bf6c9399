#include "accrue/kernels/dropout.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/kernels/recompute.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/backend.h"
#include "kernels/cpu_passes.h"
#include "kernels/first_order.h"
#include "kernels/grain.h"
#include "kernels/rows/dropout_plan.h"
#include "kernels/rows/dropout_simd.h"
#include "kernels/saved_value.h"
#include "kernels/spans.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t piece_elements = 4096;

/// Consecutive positions of a sample, small enough to divide among threads.
struct Piece {
  const MaskedRows* part;
  std::int64_t first, rows;
};

std::vector<Piece> pieces_of(const std::vector<MaskedRows>& parts, std::int64_t columns) {
  const std::int64_t most =
      std::max<std::int64_t>(1, piece_elements / std::max<std::int64_t>(1, columns));
  std::vector<Piece> pieces;
  for (const MaskedRows& part : parts)
    for (std::int64_t first = 0; first < part.rows; first += most)
      pieces.push_back({&part, first, std::min(most, part.rows - first)});
  return pieces;
}

/// Whether the parts are all rows of x [.., columns].
bool are_whole(const std::vector<MaskedRows>& parts, const at::Tensor& x, std::int64_t columns) {
  std::int64_t rows = 0;
  for (const MaskedRows& part : parts) rows += part.rows;
  return rows * columns == x.numel();
}

/// The values at positions outside all parts.
at::Tensor uncovered(const at::Tensor& x, const at::Tensor& added, at::ScalarType dtype) {
  return added.defined() ? added.clone() : at::zeros_like(x, dtype);
}

}  // namespace

at::Tensor cpu::drop(const at::Tensor& source, const std::vector<MaskedRows>& parts,
                     at::ScalarType dtype, const at::Tensor& added) {
  const at::Tensor x = source.contiguous();
  const std::int64_t columns = x.size(-1);
  at::Tensor out =
      are_whole(parts, x, columns) ? at::empty_like(x, dtype) : uncovered(x, added, dtype);
  RECORD_FUNCTION("accrue::dropout", span_of({x, added, out}));
  const Element from_type = element_of(x.scalar_type(), "dropout"),
                to_type = element_of(dtype, "dropout");
  const std::vector<Piece> pieces = pieces_of(parts, columns);
  at::parallel_for(0, static_cast<std::int64_t>(pieces.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const auto& [part, first, rows] = pieces[static_cast<std::size_t>(i)];
                       const std::int64_t offset = (part->begin + first) * columns;
                       rows::drop({
                           .from_type = from_type,
                           .to_type = to_type,
                           .first_row = static_cast<std::size_t>(first),
                           .rows = static_cast<std::size_t>(rows),
                           .columns = static_cast<std::size_t>(columns),
                           .added = added.defined() ? element(added, offset) : nullptr,
                           .from = element(x, offset),
                           .to = element(out, offset),
                           .mask = part->mask,
                       });
                     }
                   });
  return out;
}

at::Tensor cpu::add(const at::Tensor& x, const at::Tensor& y) {
  if (x.scalar_type() == y.scalar_type()) return at::add(x, y);
  const at::Tensor left = x.contiguous(), right = y.contiguous();
  at::Tensor out = at::empty_like(left);
  RECORD_FUNCTION("accrue::add", span_of({left, right, out}));
  at::parallel_for(0, out.numel(), grain_elements, [&](std::int64_t begin, std::int64_t end) {
    rows::add(reinterpret_cast<const float*>(element(left, begin)),
              reinterpret_cast<const Bf16*>(element(right, begin)),
              reinterpret_cast<float*>(element(out, begin)), static_cast<std::size_t>(end - begin));
  });
  return out;
}

namespace {

/// The masks of a micro-batch's samples.
struct DropoutPlan {
  std::vector<MaskedRows> parts;
};

/// `added` (none if undefined) + x times the mask and its scale, in `dtype`: the same map forward
/// and backward.
at::Tensor apply_masks(const at::Tensor& x, const DropoutPlan& plan, at::ScalarType dtype,
                       const at::Tensor& added = {}) {
  return backend_of(x).drop(x, plan.parts, dtype, added);
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const DropoutPlan& plan) {
    context->saved_data["plan"] = to_saved(plan);
    return apply_masks(x, plan, x.scalar_type());
  }

  /// The same map, which can be differentiated again.
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {apply(grads[0], from_saved<DropoutPlan>(context->saved_data["plan"])), {}};
  }
};

struct AddDropout : torch::autograd::Function<AddDropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y,
                            const std::optional<DropoutPlan>& plan, bool result_unread) {
    if (plan) context->saved_data["plan"] = to_saved(*plan);
    context->saved_data["dtype"] = static_cast<std::int64_t>(y.scalar_type());
    if (result_unread) return unread_result(x.sizes(), x.options());
    return plan ? apply_masks(y, *plan, x.scalar_type(), x.contiguous()) : backend_of(x).add(x, y);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("add_dropout");
    const auto dtype = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    const auto plan = context->saved_data.find("plan");
    at::Tensor grad_y;
    if (context->needs_input_grad(1))
      grad_y = plan == context->saved_data.end()
                   ? grads[0].to(dtype)
                   : apply_masks(grads[0], from_saved<DropoutPlan>(plan->second), dtype);
    return {grads[0], grad_y, {}, {}};
  }
};

void expect_addends(const at::Tensor& x, const at::Tensor& y) {
  const bool dtypes = x.scalar_type() == y.scalar_type() ||
                      (x.scalar_type() == at::kFloat && is_sixteen_bit(y.scalar_type()));
  if (dtypes && x.sizes() == y.sizes()) return;
  throw usage_error("add_dropout",
                    "x and y of the same sizes, in one dtype, or y in bf16 or fp16 beside fp32",
                    "x " + text_of(x) + ", y " + text_of(y), "converting y to x's dtype");
}

void expect_probability(double probability) {
  if (!(probability >= 0 && probability < 1))
    throw usage_error("dropout", "a probability in [0, 1)", std::to_string(probability),
                      "a value such as 0.1");
}

void expect_rows(const at::Tensor& x) {
  if (x.dim() != 2 && x.dim() != 3)
    throw usage_error("dropout", "x [B, T, C] or [B, C]", std::to_string(x.dim()) + " dimensions",
                      "reshaping it to one row per sample");
}

DropoutPlan plan_of(const at::Tensor& x, const DropoutSite& site, const ForwardContext& context) {
  const std::int64_t length = x.dim() == 3 ? x.size(1) : 1;
  const std::vector<SampleSpan> spans = named_spans("dropout", context, x.size(0), length);
  DropoutPlan plan;
  for (const SampleSpan& span : spans)
    plan.parts.push_back({.begin = span.row * length + span.begin,
                          .rows = span.end - span.begin,
                          .mask = sample_mask(site, span.sample_id)});
  return plan;
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                   std::int64_t site) {
  expect_probability(probability);
  if (!context.training || probability == 0) return x;
  expect_rows(x);
  return Dropout::apply(x, plan_of(x, {probability, context.seed, context.window, site}, context));
}

at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& y, double probability,
                       const ForwardContext& context, std::int64_t site) {
  expect_probability(probability);
  expect_addends(x, y);
  std::optional<DropoutPlan> plan;
  if (context.training && probability > 0) {
    expect_rows(y);
    plan = plan_of(y, {probability, context.seed, context.window, site}, context);
  }
  return AddDropout::apply(x, y, plan, context.result_unread);
}

}  // namespace accrue::kernels
