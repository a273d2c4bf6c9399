#include "accrue/kernels/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "accrue/core/error.h"
#include "accrue/kernels/gemm.h"
#include "first_order.h"
#include "kept_input.h"
#include "linear_forward.h"
#include "parameter_gradient.h"
#include "tensor_text.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ComputeWeight& compute,
                            const Remake& remake_x) {
    const at::Tensor bias_tensor = bias.value_or(at::Tensor());
    context->save_for_backward(
        {KeptInput::save(*context, x, remake_x), weight, bias_tensor, compute.tensor});
    return linear_forward(x, compute.tensor, bias_tensor);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("linear");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &weight = saved[1], &bias = saved[2], &compute = saved[3];
    const at::Tensor grad = as_matrix(grads[0]).contiguous();
    at::Tensor grad_x, grad_weight, grad_bias;
    if (context->needs_input_grad(0)) grad_x = input_gradient(grad, compute, grads[0].sizes());
    if (context->needs_input_grad(1))
      grad_weight = weight_gradient(weight, grad, as_matrix(KeptInput::get(*context, saved[0])));
    if (bias.defined() && context->needs_input_grad(2)) grad_bias = row_sum_gradient(bias, grad);
    return {grad_x, grad_weight, grad_bias, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void expect_linear(std::string_view operation, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& bias) {
  const std::string received =
      "x " + text_of(x) + ", weight " + text_of(weight) + ", bias " + text_of(bias);
  const bool shapes = x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1) &&
                      x.size(-1) > 0 && weight.size(0) > 0 &&
                      (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)));
  if (!shapes)
    throw usage_error(operation, "x [..., K], weight [N, K] and bias [N] or none", received,
                      "checking the widths of the layers before and after");
  const at::ScalarType dtype = x.scalar_type(), master = weight.scalar_type();
  const bool dtypes = (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16) &&
                      (master == dtype || (dtype == at::kBFloat16 && master == at::kFloat)) &&
                      (!bias.defined() || bias.scalar_type() == master);
  if (!dtypes)
    throw usage_error(operation,
                      "x in fp32, fp64 or bf16, and weight and bias in x's dtype (fp32 for bf16 x)",
                      received, "converting x or the parameters");
}

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  at::Tensor y = at::empty(sizes, x.options());
  at::Tensor rows = as_matrix(y);
  if (bias.defined())
    gemm_bias_out(rows, as_matrix(x), weight.t(), bias);
  else
    gemm_out(rows, as_matrix(x), weight.t());
  return y;
}

at::Tensor input_gradient(const at::Tensor& grad, const at::Tensor& weight, at::IntArrayRef y) {
  std::vector<std::int64_t> sizes = y.vec();
  sizes.back() = weight.size(1);
  at::Tensor gradient = at::empty(sizes, grad.options());
  at::Tensor rows = as_matrix(gradient);
  gemm_out(rows, grad, weight);
  return gradient;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  LowPrecisionCopy& copy, const Remake& remake_x) {
  expect_linear("linear", x, weight, bias);
  const std::optional<at::Tensor> optional_bias =
      bias.defined() ? std::optional(bias) : std::nullopt;
  return Linear::apply(x, weight, optional_bias, ComputeWeight{copy.of(weight, x.scalar_type())},
                       remake_x);
}

}  // namespace accrue::kernels
