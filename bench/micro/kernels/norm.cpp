// The residual connection with the norm behind it. The stream is fp32; what is added to it and what
// goes into the next product have the activations' dtype.

#include "accrue/kernels/norm.h"

#include <ATen/ATen.h>

#include "comparison.h"
#include "differentiated.h"

namespace accrue::bench {
namespace {

constexpr double eps = 1e-5;
constexpr double forward_flops = 9, backward_flops = 14;  ///< an element

using Pair = std::pair<at::Tensor, at::Tensor>;

struct Norms {
  Norms(const Workload& workload, at::ScalarType activations)
      : dtype(activations),
        x(random({workload.tokens(), workload.width}, at::kFloat).requires_grad_(true)),
        y(random(x.sizes(), dtype).requires_grad_(true)),
        weight(random({workload.width}, at::kFloat)),
        bias(random({workload.width}, at::kFloat)),
        plain_weight(weight.tensor, at::kFloat),
        plain_bias(bias.tensor, at::kFloat) {}
  Pair ours() const {
    return kernels::add_layer_norm(x, y, weight.tensor, bias.tensor, eps, dtype);
  }
  Pair theirs() const {
    const at::Tensor sum = x + y;
    const at::Tensor out =
        at::layer_norm(sum, {x.size(-1)}, plain_weight.tensor, plain_bias.tensor, eps);
    return {sum, out.to(dtype)};
  }
  at::ScalarType dtype;
  at::Tensor x, y;
  Parameter weight, bias;
  PlainParameter plain_weight, plain_bias;
};

std::vector<at::Tensor> list(const Pair& pair) { return {pair.first, pair.second}; }

Comparison forward(const Workload& workload, at::ScalarType dtype) {
  const Norms norms(workload, dtype);
  return {.accrue = [=] { return list(norms.ours()); },
          .aten = [=] { return list(norms.theirs()); },
          .flops = forward_flops * static_cast<double>(norms.x.numel()),
          .bytes = 2 * bytes_of({norms.x, norms.y})};
}

Comparison backward(const Workload& workload, at::ScalarType dtype) {
  const Norms norms(workload, dtype);
  const torch::autograd::variable_list grads{random(norms.x.sizes(), at::kFloat),
                                             random(norms.x.sizes(), dtype)};
  const Backward ours{
      list(norms.ours()), {norms.x, norms.y, norms.weight.tensor, norms.bias.tensor}, grads};
  const Backward theirs{list(norms.theirs()),
                        {norms.x, norms.y, norms.plain_weight.tensor, norms.plain_bias.tensor},
                        grads};
  // The gradient of y is that of x where they have one dtype.
  const double grad_y_bytes = dtype == at::kFloat ? 0 : bytes_of({norms.y});
  return {.accrue =
              [=] {
                const torch::autograd::variable_list results = ours();
                return std::vector{results[0], results[1], norms.weight.slot->main,
                                   norms.bias.slot->main};
              },
          .aten =
              [=] {
                const torch::autograd::variable_list results = theirs();
                at::Tensor weight = norms.plain_weight.main, bias = norms.plain_bias.main;
                return std::vector{results[0], results[1], weight.add_(results[2]),
                                   bias.add_(results[3])};
              },
          .flops = backward_flops * static_cast<double>(norms.x.numel()),
          .bytes = bytes_of({grads[0], grads[1], norms.x, norms.x}) + grad_y_bytes};
}

}  // namespace

void add_norm() {
  for (const Workload& workload : workloads)
    for (const at::ScalarType dtype : precisions) {
      add_comparison({"add_layer_norm_forward", workload, dtype},
                     [=] { return forward(workload, dtype); });
      add_comparison({"add_layer_norm_backward", workload, dtype},
                     [=] { return backward(workload, dtype); });
    }
}

}  // namespace accrue::bench
