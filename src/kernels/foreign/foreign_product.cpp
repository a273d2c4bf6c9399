#include "kernels/foreign/foreign_product.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <optional>

#include "kernels/foreign/gradients_with_graph.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/linear_forward.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/optional_tensor.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_transpose(const at::Tensor& view, const at::Tensor& of) {
  return of.dim() == 2 && view.dim() == 2 && view.const_data_ptr() == of.const_data_ptr() &&
         view.size(0) == of.size(1) && view.size(1) == of.size(0) &&
         view.stride(0) == of.stride(1) && view.stride(1) == of.stride(0);
}

/// Whether nobody looks at the gradient of a transpose on its way to the parameter.
bool is_unobserved(const at::Tensor& transpose) {
  const auto& node = transpose.grad_fn();
  return node->pre_hooks().empty() && node->post_hooks().empty() &&
         node->tensor_pre_hooks().empty() && node->retains_grad_hooks().empty();
}

/// `grad` is contiguous.
at::Tensor factor_gradient(const at::Tensor& factor, const at::Tensor& grad, const at::Tensor& x) {
  if (factor.is_leaf()) return weight_gradient(factor, x, grad);
  if (!is_unobserved(factor)) return x.t().mm(grad);
  const at::Tensor gradient = weight_gradient(transposed_or_same_parameter(factor), grad, x);
  return gradient.defined() ? gradient.t() : gradient;
}

at::Tensor libtorch_product(const variable_list& inputs) {
  return inputs[2].defined() ? at::addmm(inputs[2], inputs[0], inputs[1])
                             : at::mm(inputs[0], inputs[1]);
}

struct ForeignProduct : torch::autograd::Function<ForeignProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& factor,
                            const std::optional<at::Tensor>& bias) {
    const at::Tensor bias_tensor = bias.value_or(at::Tensor());
    context->save_for_backward({x, factor, bias_tensor});
    return linear_forward(x, factor.t(), factor.size(1), bias_tensor);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    if (at::GradMode::is_enabled()) return gradients_with_graph(saved, grads[0], libtorch_product);
    const at::Tensor &x = saved[0], &factor = saved[1], &bias = saved[2];
    const at::Tensor grad = grads[0].contiguous();
    variable_list gradients(3);
    if (context->needs_input_grad(0)) gradients[0] = input_gradient(grad, factor.t(), x.sizes());
    if (context->needs_input_grad(1)) gradients[1] = factor_gradient(factor, grad, x);
    if (bias.defined() && context->needs_input_grad(2)) gradients[2] = row_sum_gradient(bias, grad);
    return gradients;
  }
};

}  // namespace

namespace {

/// What a view that was made without a graph is the transpose of.
at::Tensor transposed_base(const at::Tensor& view) {
  if (at::GradMode::is_enabled() || !view.is_view()) return {};
  const at::Tensor base(view._base());
  return base.is_leaf() && base.requires_grad() && is_transpose(view, base) ? base : at::Tensor();
}

}  // namespace

at::Tensor transposed_or_same_parameter(const at::Tensor& factor) {
  if (!factor.requires_grad()) return transposed_base(factor);
  if (factor.is_leaf()) return factor;
  const auto& node = factor.grad_fn();
  if (!node || node->num_outputs() != 1) return {};
  const auto* end =
      dynamic_cast<const torch::autograd::AccumulateGrad*>(node->next_edge(0).function.get());
  return end != nullptr && is_transpose(factor, end->variable) ? end->variable : at::Tensor();
}

at::Tensor foreign_product(const at::Tensor& x, const at::Tensor& factor, const at::Tensor& bias) {
  return ForeignProduct::apply(x, factor, optional_of(bias));
}

}  // namespace accrue::kernels
