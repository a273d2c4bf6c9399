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

/// The leaf of a node with one output; undefined if it is something else.
at::Tensor leaf_behind(const torch::autograd::Node* node) {
  if (node == nullptr || node->num_outputs() != 1) return {};
  const auto* end =
      dynamic_cast<const torch::autograd::AccumulateGrad*>(node->next_edge(0).function.get());
  return end != nullptr ? end->variable : at::Tensor();
}

/// The leaf, or transpose of one, from which autocasting made `cast`; undefined if there is none.
FactorOrigin origin_of_cast(const at::Tensor& cast) {
  const auto* node = cast.grad_fn().get();
  if (node == nullptr || node->name() != "ToCopyBackward0") return {};
  const auto* before = node->next_edge(0).function.get();
  const bool is_transposed = before != nullptr && before->name() == "TBackward0";
  const at::Tensor leaf = leaf_behind(is_transposed ? before : node);
  const bool fits = leaf.defined() && leaf.scalar_type() == at::kFloat && leaf.dim() == 2;
  return fits ? FactorOrigin{leaf, is_transposed} : FactorOrigin{};
}

FactorOrigin origin_with_graph(const at::Tensor& factor) {
  if (factor.is_leaf()) return {factor};
  if (const at::Tensor leaf = leaf_behind(factor.grad_fn().get());
      leaf.defined() && is_transpose(factor, leaf))
    return {leaf, /*is_transposed=*/true};
  if (const FactorOrigin origin = origin_of_cast(factor); origin.parameter.defined()) return origin;
  if (!factor.is_view()) return {};
  const at::Tensor base(factor._base());
  const FactorOrigin origin = origin_of_cast(base);
  const bool fits = origin.parameter.defined() && is_transpose(factor, base);
  return fits ? FactorOrigin{origin.parameter, !origin.is_transposed} : FactorOrigin{};
}

/// The origin of a view that was made without a graph.
FactorOrigin origin_without_graph(const at::Tensor& factor) {
  if (at::GradMode::is_enabled() || !factor.is_view()) return {};
  const at::Tensor base(factor._base());
  const bool is_of_leaf = base.is_leaf() && base.requires_grad() && is_transpose(factor, base);
  return is_of_leaf ? FactorOrigin{base, /*is_transposed=*/true} : FactorOrigin{};
}

bool is_unobserved(torch::autograd::Node& node) {
  return node.pre_hooks().empty() && node.post_hooks().empty() && node.tensor_pre_hooks().empty() &&
         node.retains_grad_hooks().empty();
}

/// Whether no code observes a gradient on its way from `factor` to its parameter.
bool is_way_unobserved(const at::Tensor& factor) {
  using torch::autograd::AccumulateGrad;
  for (auto* node = factor.grad_fn().get();
       node != nullptr && dynamic_cast<const AccumulateGrad*>(node) == nullptr;
       node = node->next_edge(0).function.get())
    if (!is_unobserved(*node)) return false;
  return true;
}

/// `grad` must be contiguous.
at::Tensor factor_gradient(const at::Tensor& factor, const at::Tensor& grad, const at::Tensor& x) {
  const FactorOrigin origin = origin_of_factor(factor);
  if (!origin.parameter.defined() || !is_way_unobserved(factor)) return x.t().mm(grad);
  if (!origin.is_transposed) return weight_gradient(origin.parameter, x, grad);
  const at::Tensor gradient = weight_gradient(origin.parameter, grad, x);
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

FactorOrigin origin_of_factor(const at::Tensor& factor) {
  // A view that was made without a graph has no node, though its requires_grad is its base's.
  const bool is_in_graph = factor.requires_grad() && (factor.grad_fn() || !factor.is_view());
  return is_in_graph ? origin_with_graph(factor) : origin_without_graph(factor);
}

at::Tensor foreign_product(const at::Tensor& x, const at::Tensor& factor, const at::Tensor& bias) {
  return ForeignProduct::apply(x, factor, optional_of(bias));
}

}  // namespace accrue::kernels
