#include "kernels/foreign/gradients_with_graph.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/foreign/accelerated_scope.h"

namespace accrue::kernels {
namespace {

using torch::autograd::variable_list;

bool wants_gradient(const at::Tensor& input) { return input.defined() && input.requires_grad(); }

}  // namespace

variable_list gradients_with_graph(
    const variable_list& inputs, const at::Tensor& upstream,
    const std::function<at::Tensor(const variable_list&)>& operation) {
  const c10::impl::ExcludeDispatchKeyGuard plainly(accelerated_key);
  // The operation uses aliases, so that the history of an input is not part of its gradient.
  variable_list aliases, wanted;
  for (const at::Tensor& input : inputs) {
    aliases.push_back(wants_gradient(input) ? input.view_as(input) : input);
    if (wants_gradient(input)) wanted.push_back(aliases.back());
  }
  const variable_list found =
      torch::autograd::grad({operation(aliases)}, wanted, {upstream}, /*retain_graph=*/true,
                            /*create_graph=*/true, /*allow_unused=*/true);
  variable_list gradients;
  auto next = found.begin();
  for (const at::Tensor& input : inputs)
    gradients.push_back(wants_gradient(input) ? *next++ : at::Tensor());
  return gradients;
}

}  // namespace accrue::kernels
