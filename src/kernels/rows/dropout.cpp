#include "accrue/kernels/dropout.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/first_order.h"
#include "kernels/rows/dropout_simd.h"
#include "kernels/saved_value.h"
#include "kernels/spans.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t piece_elements = 4096;

/// One sample's rows of x as a matrix [rows, C].
struct MaskedPart {
  std::int64_t begin, rows;
  DropoutMask mask;
};

struct DropoutPlan {
  std::vector<MaskedPart> parts;
  bool whole;  ///< whether the parts are all of x
};

/// Consecutive positions of a sample, small enough to be shared out among threads.
struct Piece {
  const MaskedPart* part;
  std::int64_t first, rows;
};

std::vector<Piece> pieces_of(const DropoutPlan& plan, std::int64_t columns) {
  const std::int64_t most =
      std::max<std::int64_t>(1, piece_elements / std::max<std::int64_t>(1, columns));
  std::vector<Piece> pieces;
  for (const MaskedPart& part : plan.parts)
    for (std::int64_t first = 0; first < part.rows; first += most)
      pieces.push_back({&part, first, std::min(most, part.rows - first)});
  return pieces;
}

/// x times the mask and its scale: the same map forwards and backwards.
at::Tensor apply_masks(const at::Tensor& source, const DropoutPlan& plan) {
  const at::Tensor x = source.contiguous();
  at::Tensor out = plan.whole ? at::empty_like(x) : at::zeros_like(x);
  RECORD_FUNCTION("accrue::dropout", span_of({x, out}));
  const std::int64_t columns = x.size(-1), row_bytes = columns * x.element_size();
  const Element type = element_of(x.scalar_type(), "dropout");
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const std::vector<Piece> pieces = pieces_of(plan, columns);
  at::parallel_for(0, static_cast<std::int64_t>(pieces.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const auto& [part, first, rows] = pieces[static_cast<std::size_t>(i)];
                       const std::int64_t offset = (part->begin + first) * row_bytes;
                       rows::drop({
                           .type = type,
                           .first_row = static_cast<std::size_t>(first),
                           .rows = static_cast<std::size_t>(rows),
                           .columns = static_cast<std::size_t>(columns),
                           .from = from + offset,
                           .to = to + offset,
                           .mask = part->mask,
                       });
                     }
                   });
  return out;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const DropoutPlan& plan) {
    context->saved_data["plan"] = to_saved(plan);
    return apply_masks(x, plan);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("dropout");
    return {apply_masks(grads[0], from_saved<DropoutPlan>(context->saved_data["plan"])), {}};
  }
};

void expect_probability(double probability) {
  if (!(probability >= 0 && probability < 1))
    throw usage_error("dropout", "a probability in [0, 1)", std::to_string(probability),
                      "a value such as 0.1");
}

void expect_rows(const at::Tensor& x) {
  expect_on_cpu(x, "dropout");
  if (x.dim() != 2 && x.dim() != 3)
    throw usage_error("dropout", "x [B, T, C] or [B, C]", std::to_string(x.dim()) + " dimensions",
                      "reshaping it to one row per sample");
}

DropoutPlan plan_of(const at::Tensor& x, const DropoutSite& site, const ForwardContext& context) {
  const std::int64_t length = x.dim() == 3 ? x.size(1) : 1;
  const std::vector<SampleSpan> spans = named_spans("dropout", context, x.size(0), length);
  DropoutPlan plan{.parts = {}, .whole = covered(spans) == x.size(0) * length};
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

}  // namespace accrue::kernels
