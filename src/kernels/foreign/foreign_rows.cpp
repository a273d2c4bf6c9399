#include "kernels/foreign/foreign_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/foreign/gradients_with_graph.h"
#include "kernels/rows/elementwise.h"
#include "kernels/rows/norm.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

NormPlan foreign_plan(double eps, const at::Tensor& x) {
  return {.name = "layer_norm", .eps = eps, .offset = 0, .out = x.scalar_type()};
}

struct ForeignLayerNorm : torch::autograd::Function<ForeignLayerNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, double eps) {
    const Normalised result = normalise(foreign_plan(eps, x), x.contiguous(), {},
                                        {.weight = weight, .bias = bias, .offset = 0});
    context->saved_data["eps"] = eps;
    context->save_for_backward({x, weight, bias, result.statistics});
    return result.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const double eps = context->saved_data["eps"].toDouble();
    if (at::GradMode::is_enabled()) {
      variable_list gradients =
          gradients_with_graph({x, weight, bias}, grads[0], [&](const variable_list& inputs) {
            return at::layer_norm(inputs[0], {x.size(-1)}, inputs[1], inputs[2], eps);
          });
      gradients.emplace_back();
      return gradients;
    }
    const NormGradients result =
        norm_gradients(foreign_plan(eps, x), grads[0].contiguous(), {}, x.contiguous(), saved[3],
                       {.weight = weight,
                        .bias = bias,
                        .offset = 0,
                        .wants_weight = context->needs_input_grad(1),
                        .wants_bias = context->needs_input_grad(2)},
                       x.scalar_type());
    return {result.input, result.weight, result.bias, {}};
  }
};

struct ForeignGelu : torch::autograd::Function<ForeignGelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const at::Tensor input = x.contiguous();
    at::Tensor out = at::empty_like(input);
    elementwise::gelu(input, out);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor x = context->get_saved_variables()[0];
    if (at::GradMode::is_enabled())
      return gradients_with_graph(
          {x}, grads[0], [](const variable_list& inputs) { return at::gelu(inputs[0], "tanh"); });
    const at::Tensor input = x.contiguous();
    at::Tensor gradient = at::empty_like(input);
    elementwise::gelu_backward(grads[0].contiguous(), input, gradient);
    return {gradient};
  }
};

}  // namespace

at::Tensor foreign_layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              double eps) {
  return ForeignLayerNorm::apply(x, weight, bias, eps);
}

at::Tensor foreign_gelu(const at::Tensor& x) { return ForeignGelu::apply(x); }

}  // namespace accrue::kernels
