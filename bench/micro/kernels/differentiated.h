#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <vector>

#include "accrue/kernels/grad_slot.h"

namespace accrue::bench {

/// A trained tensor, its gradient in a slot that holds the sum of earlier micro-batches: zeros.
struct Parameter {
  explicit Parameter(const at::Tensor& value)
      : tensor(value.detach().clone().requires_grad_(true)),
        slot(std::make_shared<kernels::GradSlot>(at::zeros(value.sizes(), at::kFloat))) {
    slot->open = true;
    slot->fresh = false;
    kernels::attach(tensor, slot);
  }
  at::Tensor tensor;
  std::shared_ptr<kernels::GradSlot> slot;
};

/// The same for ATen: what autograd returns is added to `main`, as AccumulateGrad does where the
/// dtypes agree and as mixed precision needs where they do not.
struct PlainParameter {
  PlainParameter(const at::Tensor& value, at::ScalarType dtype)
      : tensor(value.detach().to(dtype, false, /*copy=*/true).requires_grad_(true)),
        main(at::zeros(value.sizes(), at::kFloat)) {}
  at::Tensor tensor, main;
};

/// The backward of an operation whose forward ran once. Gradients of `inputs`; those of parameters
/// with an open slot are undefined.
struct Backward {
  torch::autograd::variable_list outputs, inputs, grads;
  torch::autograd::variable_list operator()() const {
    return torch::autograd::grad(outputs, inputs, grads, /*retain_graph=*/true,
                                 /*create_graph=*/false, /*allow_unused=*/true);
  }
};

}  // namespace accrue::bench
