#include "accrue/kernels/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "accrue/core/error.h"
#include "kernels/aten_element.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/first_order.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/linear_forward.h"
#include "kernels/gemm/packed_gemm.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/kept_input.h"
#include "kernels/tensor_text.h"

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
        {weight.requires_grad() ? KeptInput::save(*context, x, remake_x) : at::Tensor(), weight,
         bias_tensor, compute.operands.data_gradient});
    return linear_forward(x, compute.operands.forward, weight.size(0), bias_tensor);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("linear");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &weight = saved[1], &bias = saved[2];
    const at::Tensor grad = as_matrix(grads[0]).contiguous();
    at::Tensor grad_x, grad_weight, grad_bias;
    if (context->needs_input_grad(0))
      grad_x =
          input_gradient(grad, saved[3], sizes_with(grads[0].sizes(), matrix_size(weight).columns));
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
  const bool is_matrix = weight.dim() == 2 || is_in_blocks(weight);
  const bool shapes = x.dim() >= 1 && is_matrix && x.size(-1) == matrix_size(weight).columns &&
                      x.size(-1) > 0 && weight.size(0) > 0 &&
                      (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)));
  if (!shapes)
    throw usage_error(operation, "x [..., K], weight [N, K] and bias [N] or none", received,
                      "checking the widths of the layers before and after");
  const at::ScalarType dtype = x.scalar_type(), master = is_unpacked_by_products(weight, dtype)
                                                             ? dtype
                                                             : weight.scalar_type();
  const bool dtypes = (dtype == at::kFloat || dtype == at::kDouble || is_sixteen_bit(dtype)) &&
                      (master == dtype || (is_sixteen_bit(dtype) && master == at::kFloat)) &&
                      (!bias.defined() || bias.scalar_type() == master ||
                       (master == at::kBFloat16 && bias.scalar_type() == at::kFloat));
  if (!dtypes)
    throw usage_error(operation,
                      "x in fp32, fp64, bf16 or fp16, and weight and bias in x's dtype (or fp32 "
                      "for x in 16 bits)",
                      received, "converting x or the parameters");
}

std::vector<std::int64_t> sizes_with(at::IntArrayRef sizes, std::int64_t width) {
  std::vector<std::int64_t> result = sizes.vec();
  result.back() = width;
  return result;
}

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, std::int64_t width,
                          const at::Tensor& bias) {
  at::Tensor y = at::empty(sizes_with(x.sizes(), width), x.options());
  at::Tensor rows = as_matrix(y);
  if (weight.dim() == 1) {
    gemm_packed_out(rows, as_matrix(x), weight, bias);
    return y;
  }
  const at::Tensor plain = unpacked(weight, x.scalar_type());
  if (bias.defined())
    gemm_bias_out(rows, as_matrix(x), plain.t(), bias);
  else
    gemm_out(rows, as_matrix(x), plain.t());
  return y;
}

at::Tensor input_gradient(const at::Tensor& grad, const at::Tensor& weight, at::IntArrayRef sizes) {
  at::Tensor gradient = at::empty(sizes, grad.options());
  at::Tensor rows = as_matrix(gradient);
  if (weight.dim() == 1)
    gemm_packed_out(rows, grad, weight);
  else
    gemm_out(rows, grad, unpacked(weight, grad.scalar_type()));
  return gradient;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  PreparedWeight& prepared, const Remake& remake_x) {
  expect_linear("linear", x, weight, bias);
  const std::optional<at::Tensor> optional_bias =
      bias.defined() ? std::optional(bias) : std::nullopt;
  const ComputeWeight compute{
      prepared.operands(weight, x.scalar_type(), at::GradMode::is_enabled() && x.requires_grad())};
  return Linear::apply(x, weight, optional_bias, compute, remake_x);
}

}  // namespace accrue::kernels
