#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "accrue/core/error.h"
#include "accrue/kernels/linear.h"
#include "kernels/first_order.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/linear_forward.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/kept_input.h"
#include "kernels/optional_tensor.h"
#include "kernels/tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* adapted_operation = "adapted_linear";

/// The operands of the products, none of which is an input of the graph.
struct AdaptedOperands {
  WeightOperands weight;
  at::Tensor a, b;
  double scale;
};

class AdaptedLinear : public torch::autograd::Function<AdaptedLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& a, const at::Tensor& b,
                            const std::optional<at::Tensor>& bias,
                            const std::optional<at::Tensor>& dropped,
                            const AdaptedOperands& operands, const Remake& remake_dropped) {
    const at::Tensor bias_tensor = bias.value_or(at::Tensor());
    const at::Tensor& into_a = dropped ? *dropped : x;
    const at::Tensor scaled =
        linear_forward(into_a, operands.a, a.size(0), {}).mul_(operands.scale);
    context->saved_data["operands"] = to_saved(operands);
    context->saved_data["has_dropped"] = dropped.has_value();
    context->save_for_backward(
        {a.requires_grad() ? KeptInput::save(*context, into_a, remake_dropped) : at::Tensor(),
         weight.requires_grad() ? x : at::Tensor(), scaled, weight, a, b, bias_tensor});
    at::Tensor y = linear_forward(x, operands.weight.forward, weight.size(0), bias_tensor);
    at::Tensor rows = as_matrix(y);
    gemm_out(rows, as_matrix(scaled), operands.b.t(), /*accumulate=*/true);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order(adapted_operation);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &weight = saved[3], &a = saved[4], &b = saved[5], &bias = saved[6];
    const auto& operands = from_saved<AdaptedOperands>(context->saved_data.at("operands"));
    const at::Tensor grad = as_matrix(grads[0]).contiguous();
    const Edges edges(*context, bias.defined());
    at::Tensor grad_x, grad_weight, grad_a, grad_b, grad_bias, grad_dropped;

    if (edges.b) grad_b = weight_gradient(b, grad, as_matrix(saved[2]));
    at::Tensor grad_between = at::empty({grad.size(0), a.size(0)}, grad.options());
    gemm_out(grad_between, grad, operands.b);
    grad_between.mul_(operands.scale);
    if (edges.a)
      grad_a = weight_gradient(a, grad_between, as_matrix(KeptInput::get(*context, saved[0])));
    const std::vector<std::int64_t> sizes = sizes_with(grads[0].sizes(), a.size(1));
    if (edges.x) grad_x = input_gradient(grad, operands.weight.data_gradient, sizes);
    if (edges.dropped) {
      grad_dropped = input_gradient(grad_between, operands.a, sizes);
    } else if (edges.x && !edges.has_dropped) {
      at::Tensor rows = as_matrix(grad_x);
      gemm_out(rows, grad_between, operands.a, /*accumulate=*/true);
    }
    if (edges.weight) grad_weight = weight_gradient(weight, grad, as_matrix(saved[1]));
    if (edges.bias) grad_bias = row_sum_gradient(bias, grad);
    return {grad_x,    grad_weight,  grad_a,       grad_b,
            grad_bias, grad_dropped, at::Tensor(), at::Tensor()};
  }

 private:
  /// The gradients that are needed. Absent inputs have no edge.
  struct Edges {
    Edges(const AutogradContext& context, bool has_bias)
        : x(context.needs_input_grad(0)),
          weight(context.needs_input_grad(1)),
          a(context.needs_input_grad(2)),
          b(context.needs_input_grad(3)),
          bias(has_bias && context.needs_input_grad(4)),
          has_dropped(context.saved_data.at("has_dropped").toBool()),
          dropped(has_dropped && context.needs_input_grad(has_bias ? 5 : 4)) {}
    bool x, weight, a, b, bias, has_dropped, dropped;
  };
};

void expect_factors(const at::Tensor& x, const at::Tensor& weight, const LowRank& factors,
                    const at::Tensor& dropped) {
  expect_linear(adapted_operation, x, factors.a, {});
  const at::Tensor& b = factors.b;
  const bool fits = b.dim() == 2 && b.size(0) == weight.size(0) && b.size(1) == factors.a.size(0) &&
                    b.scalar_type() == factors.a.scalar_type() &&
                    (!dropped.defined() ||
                     (dropped.sizes() == x.sizes() && dropped.scalar_type() == x.scalar_type()));
  if (fits) return;
  throw usage_error(adapted_operation,
                    "factors a [r, K] and b [N, r] of one dtype, and a dropped x like x",
                    "a " + text_of(factors.a) + ", b " + text_of(b) + ", weight " +
                        text_of(weight) + ", dropped x " + text_of(dropped),
                    "factors of one rank for this weight");
}

}  // namespace

at::Tensor adapted_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          PreparedWeight& prepared, LowRank& factors, const at::Tensor& dropped,
                          const Remake& remake_dropped) {
  expect_linear(adapted_operation, x, weight, bias);
  expect_factors(x, weight, factors, dropped);
  const at::ScalarType dtype = x.scalar_type();
  const AdaptedOperands operands{
      .weight = prepared.operands(weight, dtype, at::GradMode::is_enabled() && x.requires_grad()),
      .a = factors.prepared_a.copy(factors.a, dtype),
      .b = factors.prepared_b.copy(factors.b, dtype),
      .scale = factors.scale};
  return AdaptedLinear::apply(x, weight, factors.a, factors.b, optional_of(bias),
                              optional_of(dropped), operands, remake_dropped);
}

}  // namespace accrue::kernels
