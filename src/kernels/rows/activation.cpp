#include "accrue/kernels/activation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/first_order.h"
#include "kernels/rows/elementwise.h"

namespace accrue::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Gelu : torch::autograd::Function<Gelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor input = x.contiguous();
    context->save_for_backward({input});
    at::Tensor out = at::empty_like(input);
    elementwise::gelu(input, out);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("gelu");
    const at::Tensor input = context->get_saved_variables()[0];
    at::Tensor grad = at::empty_like(input);
    elementwise::gelu_backward(grads[0].contiguous(), input, grad);
    return {grad};
  }
};

struct Gate : torch::autograd::Function<Gate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            GateActivation activation) {
    const at::Tensor opening = gate.contiguous(), through = up.contiguous();
    context->saved_data["activation"] = static_cast<std::int64_t>(activation);
    context->save_for_backward({opening, through});
    at::Tensor out = at::empty_like(opening);
    elementwise::gate(activation, opening, through, out);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    expect_first_order("gate");
    const variable_list saved = context->get_saved_variables();
    const auto activation =
        static_cast<GateActivation>(context->saved_data.at("activation").toInt());
    elementwise::GateResults results{.out = at::empty_like(saved[0]),
                                     .grad_gate = at::empty_like(saved[0]),
                                     .grad_up = at::empty_like(saved[1])};
    elementwise::gate_backward(activation, grads[0].contiguous(), saved[0], saved[1], results);
    return {results.grad_gate, results.grad_up, {}};
  }
};

}  // namespace

at::Tensor gelu(const at::Tensor& x) { return Gelu::apply(x); }

at::Tensor gate(GateActivation activation, const at::Tensor& gate, const at::Tensor& up) {
  return Gate::apply(gate, up, activation);
}

}  // namespace accrue::kernels
