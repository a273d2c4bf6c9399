#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <array>
#include <vector>

#include "accrue/kernels/linear.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/first_order.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/linear_forward.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/kept_input.h"
#include "kernels/rows/elementwise.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A gated part's weights in the form that its products read.
struct GatedWeights {
  WeightOperands gate, up, down;
};

class MlpGated : public torch::autograd::Function<MlpGated> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gate,
                            const at::Tensor& up, const at::Tensor& down,
                            const GatedWeights& weights, const GatedMlpOptions& options) {
    const at::Tensor pre_gate = linear_forward(x, weights.gate.forward, gate.size(0), {});
    const at::Tensor pre_up = linear_forward(x, weights.up.forward, up.size(0), {});
    const bool needs_x = gate.requires_grad() || up.requires_grad();
    context->saved_data["activation"] = static_cast<std::int64_t>(options.activation);
    context->save_for_backward(
        {needs_x ? KeptInput::save(*context, x, options.remake_x) : at::Tensor(), pre_gate, pre_up,
         gate, up, down, weights.gate.data_gradient, weights.up.data_gradient,
         weights.down.data_gradient});
    if (options.result_unread)
      return unread_result(sizes_with(x.sizes(), down.size(0)), x.options());
    at::Tensor hidden = at::empty(pre_gate.sizes(), pre_gate.options());
    elementwise::gate(options.activation, pre_gate, pre_up, hidden);
    return linear_forward(hidden, weights.down.forward, down.size(0), {});
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("mlp_gated");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &gate = saved[3], &up = saved[4], &down = saved[5];
    const at::Tensor grad = as_matrix(grads[0]).contiguous();
    const bool wants_x = context->needs_input_grad(0), wants_gate = context->needs_input_grad(1),
               wants_up = context->needs_input_grad(2), wants_down = context->needs_input_grad(3);
    at::Tensor grad_x, grad_gate, grad_up, grad_down;

    const elementwise::GateResults hidden =
        remake_gated(*context, saved, grad, wants_x || wants_gate || wants_up);
    if (wants_down) grad_down = weight_gradient(down, grad, hidden.out);
    if (wants_gate || wants_up) {
      const at::Tensor x = as_matrix(KeptInput::get(*context, saved[0]));
      if (wants_gate) grad_gate = weight_gradient(gate, hidden.grad_gate, x);
      if (wants_up) grad_up = weight_gradient(up, hidden.grad_up, x);
    }
    if (wants_x) {
      const std::vector<std::int64_t> sizes =
          sizes_with(grads[0].sizes(), matrix_size(gate).columns);
      grad_x = input_gradient(hidden.grad_gate, saved[6], sizes);
      grad_x.add_(input_gradient(hidden.grad_up, saved[7], sizes));
    }
    return {grad_x, grad_gate, grad_up, grad_down, at::Tensor(), at::Tensor()};
  }

 private:
  /// Recomputes the value between the products and, if needed, the gradients of the two
  /// pre-activations. Unless the graph is kept, these are no longer needed, and their memory holds
  /// the results from here on.
  static elementwise::GateResults remake_gated(const AutogradContext& context,
                                               const variable_list& saved, const at::Tensor& grad,
                                               bool wants_gradients) {
    const auto activation =
        static_cast<GateActivation>(context.saved_data.at("activation").toInt());
    const bool kept = torch::autograd::get_current_graph_task_keep_graph();
    const at::Tensor pre_gate = as_matrix(saved[1]), pre_up = as_matrix(saved[2]);
    elementwise::GateResults results{.out = kept ? at::empty_like(pre_gate) : pre_gate};
    if (!wants_gradients) {
      elementwise::gate(activation, pre_gate, pre_up, results.out);
      return results;
    }
    const at::Tensor grad_hidden = input_gradient(grad, saved[8], pre_gate.sizes());
    results.grad_gate = kept ? at::empty_like(pre_up) : pre_up;
    results.grad_up = grad_hidden;
    elementwise::gate_backward(activation, grad_hidden, pre_gate, pre_up, results);
    return results;
  }
};

}  // namespace

at::Tensor mlp_gated(const at::Tensor& x, const at::Tensor& gate, PreparedWeight& prepared_gate,
                     const at::Tensor& up, PreparedWeight& prepared_up, const at::Tensor& down,
                     PreparedWeight& prepared_down, const GatedMlpOptions& options) {
  expect_linear("mlp_gated", x, gate, {});
  expect_linear("mlp_gated", x, up, {});
  expect_linear("mlp_gated", at::empty({0, gate.size(0)}, x.options()), down, {});
  expect_linear("mlp_gated", at::empty({0, up.size(0)}, x.options()), down, {});
  const std::array parts{x, gate, up, down};
  const bool differentiable =
      at::GradMode::is_enabled() &&
      std::any_of(parts.begin(), parts.end(), [](auto& part) { return part.requires_grad(); });
  const auto operands = [&](PreparedWeight& prepared, const at::Tensor& weight) {
    return prepared.operands(weight, x.scalar_type(), differentiable);
  };
  const GatedWeights weights{.gate = operands(prepared_gate, gate),
                             .up = operands(prepared_up, up),
                             .down = operands(prepared_down, down)};
  if (differentiable) return MlpGated::apply(x, gate, up, down, weights, options);
  const at::NoGradGuard no_grad;
  at::Tensor hidden = linear_forward(x, weights.gate.forward, gate.size(0), {});
  elementwise::gate(options.activation, hidden,
                    linear_forward(x, weights.up.forward, up.size(0), {}), hidden);
  return linear_forward(hidden, weights.down.forward, down.size(0), {});
}

}  // namespace accrue::kernels
