#include "accrue/kernels/rotary.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>

#include "accrue/core/error.h"
#include "core/kernel_span.h"
#include "kernels/aten_element.h"
#include "kernels/backend.h"
#include "kernels/cpu_passes.h"
#include "kernels/first_order.h"
#include "kernels/grain.h"
#include "kernels/rows/rotary_simd.h"
#include "kernels/saved_value.h"
#include "kernels/spans.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The parameters of a rotation of x [B, T, heads * W], besides x.
struct RotationPlan {
  std::int64_t heads;
  at::Tensor cosines, sines;  ///< contiguous
  std::vector<SampleSpan> spans;
};

void expect_rotation(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                     const at::Tensor& sines) {
  const std::string received =
      "x " + text_of(x) + ", tables " + text_of(cosines) + " and " + text_of(sines);
  if (heads < 1 || x.dim() != 3 || x.size(2) == 0 || x.size(2) % (2 * heads) != 0)
    throw usage_error("rotate",
                      "x [B, T, heads * W] of " + std::to_string(heads) + " heads of even width W",
                      received, "a width that twice the number of heads divides");
  const at::ScalarType dtype = accumulation_dtype(x.scalar_type());
  if (cosines.dim() != 2 || cosines.size(1) != x.size(2) / (2 * heads) ||
      cosines.sizes() != sines.sizes() || cosines.scalar_type() != dtype ||
      sines.scalar_type() != dtype)
    throw usage_error("rotate", "cosines and sines [positions, W / 2] in fp32 (fp64 for fp64 x)",
                      received, "tables of half a head's width");
}

void expect_table_of(std::int64_t positions, const at::Tensor& cosines) {
  if (positions > cosines.size(0))
    throw usage_error("rotate",
                      "samples of at most " + std::to_string(cosines.size(0)) + " positions",
                      std::to_string(positions),
                      "shorter samples or a model with a longer context (model.context)");
}

/// The position of each column of x [B, T] in its sample; -1 if no span covers it.
std::vector<std::int64_t> positions_in(const std::vector<SampleSpan>& spans, std::int64_t rows,
                                       std::int64_t length) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(rows * length), -1);
  for (const SampleSpan& span : spans)
    for (std::int64_t column = span.begin; column < span.end; ++column)
      positions[static_cast<std::size_t>(span.row * length + column)] = column - span.begin;
  return positions;
}

at::Tensor turned(const at::Tensor& x, const RotationPlan& plan, bool backwards) {
  return backend_of(x).rotate(x, plan.heads, plan.cosines, plan.sines,
                              positions_in(plan.spans, x.size(0), x.size(1)), backwards);
}

}  // namespace

at::Tensor cpu::rotate(const at::Tensor& source, std::int64_t heads, const at::Tensor& cosines,
                       const at::Tensor& sines, const std::vector<std::int64_t>& positions,
                       bool backwards) {
  const at::Tensor x = source.contiguous();
  at::Tensor out = at::empty(x.sizes(), x.options());
  RECORD_FUNCTION(backwards ? "accrue::rotate_backward" : "accrue::rotate", span_of({x, out}));
  const std::int64_t channels = x.size(2), columns = x.size(0) * x.size(1);
  const std::int64_t half = channels / heads / 2;
  const Element type = element_of(x.scalar_type(), "rotate");
  at::parallel_for(0, columns, grain_of(channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < end; ++column) {
      const std::int64_t position = positions[static_cast<std::size_t>(column)];
      char* to = element(out, column * channels);
      if (position < 0) {
        std::fill_n(to, channels * out.element_size(), char{0});
        continue;
      }
      rows::rotate({.type = type,
                    .heads = static_cast<std::size_t>(heads),
                    .half = static_cast<std::size_t>(half),
                    .backwards = backwards,
                    .from = element(x, column * channels),
                    .to = to,
                    .cosines = element(cosines, position * half),
                    .sines = element(sines, position * half)});
    }
  });
  return out;
}

namespace {

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const RotationPlan& plan) {
    context->saved_data["plan"] = to_saved(plan);
    return turned(x, plan, false);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("rotate");
    return {turned(grads[0], from_saved<RotationPlan>(context->saved_data["plan"]), true), {}};
  }
};

}  // namespace

at::Tensor rotate(const at::Tensor& x, std::int64_t heads, const at::Tensor& cosines,
                  const at::Tensor& sines, const std::vector<SampleSpan>& spans) {
  expect_rotation(x, heads, cosines, sines);
  const RotationPlan plan{.heads = heads,
                          .cosines = cosines.detach().contiguous(),
                          .sines = sines.detach().contiguous(),
                          .spans = spans_or_rows("rotate", spans, x.size(0), x.size(1))};
  expect_table_of(longest(plan.spans), plan.cosines);
  return Rotate::apply(x, plan);
}

}  // namespace accrue::kernels
