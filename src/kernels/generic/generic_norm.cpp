#include "kernels/generic/generic_norm.h"

#include <ATen/ATen.h>

#include <utility>

#include "kernels/aten_element.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/generic/tensors.h"

namespace accrue::kernels::generic {
namespace {

at::Tensor as_rows(const at::Tensor& x, at::ScalarType dtype) {
  return x.reshape({-1, x.size(-1)}).to(dtype);
}

/// The row whose sum is a parameter's gradient.
at::Tensor one_row(const at::Tensor& sums) { return sums.reshape({1, -1}); }

struct RowGradients {
  at::Tensor input, weight, bias;
};

RowGradients layer_norm_gradients(const at::Tensor& grad, const at::Tensor& input,
                                  const at::Tensor& statistics, const NormParameters& parameters) {
  const at::Tensor mean = statistics[0].unsqueeze(1), root = statistics[1].unsqueeze(1);
  // On the CPU ATen's sums over the rows depend on the number of threads.
  const bool sums = !input.is_cpu();
  auto [of_input, of_weight, of_bias] = at::native_layer_norm_backward(
      grad, input, {input.size(1)}, mean, root, parameters.factors(), parameters.bias,
      {true, sums && parameters.wants_weight, sums && parameters.wants_bias});
  if (!sums && parameters.wants_weight) of_weight = (input - mean).mul_(root).mul_(grad).sum(0);
  if (!sums && parameters.wants_bias) of_bias = grad.sum(0);
  return {of_input, of_weight, of_bias};
}

/// With n = x r, r = 1 / sqrt(mean(x^2) + eps), and g the gradient times the factors, the gradient
/// of x is r (g - n mean(g n)).
RowGradients rms_norm_gradients(const at::Tensor& grad, const at::Tensor& input,
                                const at::Tensor& statistics, const NormParameters& parameters) {
  const at::Tensor root = statistics[1].unsqueeze(1), normal = input * root;
  const at::Tensor inner = grad * parameters.factors();
  at::Tensor of_input = inner - normal * (inner * normal).mean(1, /*keepdim=*/true);
  return {of_input.mul_(root), parameters.wants_weight ? (grad * normal).sum(0) : at::Tensor(), {}};
}

}  // namespace

Normalised normalise(const NormPlan& plan, const at::Tensor& x, const at::Tensor& y,
                     const NormParameters& parameters) {
  Normalised result;
  if (y.defined()) result.sum = at::add(x, y);
  const at::Tensor& input = y.defined() ? result.sum : x;
  const at::Tensor rows = as_rows(input, accumulation_dtype(x.scalar_type()));
  if (parameters.bias.defined()) {
    auto [out, mean, root] = at::native_layer_norm(rows, {rows.size(1)}, parameters.factors(),
                                                   parameters.bias, plan.eps);
    result.statistics = at::stack({mean.view({-1}), root.view({-1})});
    result.out = shaped(out.to(plan.out), x.sizes());
    return result;
  }
  const at::Tensor root = rows.square().mean(1, /*keepdim=*/true).add_(plan.eps).rsqrt_();
  result.statistics = at::stack({at::zeros_like(root).view({-1}), root.view({-1})});
  result.out = shaped((rows * root).mul_(parameters.factors()).to(plan.out), x.sizes());
  return result;
}

NormGradients norm_gradients(const at::Tensor& grad_out, const at::Tensor& grad_sum,
                             const at::Tensor& input, const at::Tensor& statistics,
                             const NormParameters& parameters, at::ScalarType y_dtype) {
  const at::ScalarType master = statistics.scalar_type();
  const at::Tensor grad = as_rows(grad_out, master), rows = as_rows(input, master);
  RowGradients made = parameters.bias.defined()
                          ? layer_norm_gradients(grad, rows, statistics, parameters)
                          : rms_norm_gradients(grad, rows, statistics, parameters);
  if (grad_sum.defined()) made.input.add_(grad_sum.view(made.input.sizes()));
  NormGradients result;
  result.input = shaped(made.input.to(input.scalar_type()), input.sizes());
  result.y =
      y_dtype == input.scalar_type() ? result.input : shaped(made.input.to(y_dtype), input.sizes());
  if (parameters.wants_weight)
    result.weight = row_sum_gradient(parameters.weight, one_row(made.weight));
  if (parameters.wants_bias) result.bias = row_sum_gradient(parameters.bias, one_row(made.bias));
  return result;
}

}  // namespace accrue::kernels::generic
