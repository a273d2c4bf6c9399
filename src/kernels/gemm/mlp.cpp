#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <optional>

#include "accrue/kernels/linear.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/first_order.h"
#include "kernels/gemm/linear_forward.h"
#include "kernels/gemm/parameter_gradient.h"
#include "kernels/kept_input.h"
#include "kernels/optional_tensor.h"
#include "kernels/rows/elementwise.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class MlpGelu : public torch::autograd::Function<MlpGelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w1,
                            const std::optional<at::Tensor>& b1, const ComputeWeight& compute1,
                            const at::Tensor& w2, const std::optional<at::Tensor>& b2,
                            const ComputeWeight& compute2, const MlpOptions& options) {
    const at::Tensor bias1 = b1.value_or(at::Tensor()), bias2 = b2.value_or(at::Tensor());
    const at::Tensor pre = linear_forward(x, compute1.operands.forward, w1.size(0), bias1);
    context->save_for_backward(
        {w1.requires_grad() ? KeptInput::save(*context, x, options.remake_x) : at::Tensor(), pre,
         w1, bias1, compute1.operands.data_gradient, w2, bias2, compute2.operands.data_gradient});
    if (options.result_unread) return unread_result(sizes_with(x.sizes(), w2.size(0)), x.options());
    at::Tensor hidden = at::empty(pre.sizes(), pre.options());
    elementwise::gelu(pre, hidden);
    return linear_forward(hidden, compute2.operands.forward, w2.size(0), bias2);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    expect_first_order("mlp_gelu");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &w1 = saved[2], &b1 = saved[3], &compute1 = saved[4], &w2 = saved[5],
                     &b2 = saved[6], &compute2 = saved[7];
    const at::Tensor pre = as_matrix(saved[1]), grad = as_matrix(grads[0]).contiguous();
    const Edges edges(*context, b1.defined(), b2.defined());
    at::Tensor grad_x, grad_w1, grad_b1, grad_w2, grad_b2;

    const Hidden hidden = remake_hidden(pre, grad, compute2, edges);
    if (edges.w2) grad_w2 = weight_gradient(w2, grad, hidden.value);
    if (edges.b2) grad_b2 = row_sum_gradient(b2, grad);
    if (edges.w1)
      grad_w1 = weight_gradient(w1, hidden.grad_pre, as_matrix(KeptInput::get(*context, saved[0])));
    if (edges.b1)
      grad_b1 = row_sum_gradient(b1, hidden.sums.defined() ? hidden.sums : hidden.grad_pre);
    if (edges.x)
      grad_x = input_gradient(hidden.grad_pre, compute1,
                              sizes_with(grads[0].sizes(), matrix_size(w1).columns));
    return {grad_x, grad_w1, grad_b1, at::Tensor(), grad_w2, grad_b2, at::Tensor(), at::Tensor()};
  }

 private:
  /// The gradients that are needed. An absent bias has no edge, so the edges after it move up.
  struct Edges {
    Edges(const AutogradContext& context, bool has_b1, bool has_b2)
        : x(context.needs_input_grad(0)),
          w1(context.needs_input_grad(1)),
          b1(has_b1 && context.needs_input_grad(2)),
          w2(context.needs_input_grad(has_b1 ? 3 : 2)),
          b2(has_b2 && context.needs_input_grad(has_b1 ? 4 : 3)) {}
    bool before_gelu() const { return x || w1 || b1; }
    bool x, w1, b1, w2, b2;
  };

  /// gelu(pre) and the gradient of pre, as far as they are needed.
  struct Hidden {
    at::Tensor value, grad_pre;
    at::Tensor sums;  ///< its rows add up to the sum of grad_pre's; undefined if not computed
  };
  static Hidden remake_hidden(const at::Tensor& pre, const at::Tensor& grad, const at::Tensor& w2,
                              const Edges& edges) {
    Hidden hidden;
    if (edges.before_gelu()) hidden.grad_pre = input_gradient(grad, w2, pre.sizes());
    // `pre` is no longer needed, unless the graph is kept: its memory holds the value from here on.
    if (edges.w2)
      hidden.value = torch::autograd::get_current_graph_task_keep_graph()
                         ? at::empty(pre.sizes(), pre.options())
                         : pre;
    if (edges.w2 && edges.before_gelu())
      hidden.sums =
          elementwise::gelu_with_backward(hidden.grad_pre, pre, hidden.value, hidden.grad_pre);
    else if (edges.w2)
      elementwise::gelu(pre, hidden.value);
    else if (edges.before_gelu())
      elementwise::gelu_backward(hidden.grad_pre, pre, hidden.grad_pre);
    return hidden;
  }
};

bool any_gradient(std::initializer_list<at::Tensor> tensors) {
  return at::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), [](auto& t) {
           return t.defined() && t.requires_grad();
         });
}

}  // namespace

at::Tensor mlp_gelu(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& b1,
                    PreparedWeight& prepared1, const at::Tensor& w2, const at::Tensor& b2,
                    PreparedWeight& prepared2, const MlpOptions& options) {
  expect_linear("mlp_gelu", x, w1, b1);
  expect_linear("mlp_gelu", at::empty({0, w1.size(0)}, x.options()), w2, b2);
  const bool differentiable = any_gradient({x, w1, b1, w2, b2});
  const ComputeWeight compute1{prepared1.operands(w1, x.scalar_type(), differentiable)},
      compute2{prepared2.operands(w2, x.scalar_type(), differentiable)};
  if (differentiable)
    return MlpGelu::apply(x, w1, optional_of(b1), compute1, w2, optional_of(b2), compute2, options);
  const at::NoGradGuard no_grad;
  at::Tensor hidden = linear_forward(x, compute1.operands.forward, w1.size(0), b1);
  elementwise::gelu(hidden, hidden);
  return linear_forward(hidden, compute2.operands.forward, w2.size(0), b2);
}

}  // namespace accrue::kernels
