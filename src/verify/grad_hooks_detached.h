#pragma once

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>
#include <vector>

#include "accrue/core/parameter.h"

namespace accrue::proof {

/// During its lifetime no hook is called when a gradient has been added to these parameters: code
/// that then steps or sends it should only do so in training. An Accumulator replaces such hooks.
class GradHooksDetached {
 public:
  explicit GradHooksDetached(const NamedParameters& parameters) {
    for (const NamedParameter& parameter : parameters)
      kept_.emplace_back(parameter.tensor,
                         std::move(torch::autograd::impl::post_acc_grad_hooks(parameter.tensor)));
  }
  ~GradHooksDetached() {
    for (auto& [tensor, hook] : kept_)
      torch::autograd::impl::set_post_acc_grad_hooks(tensor, std::move(hook));
  }
  GradHooksDetached(const GradHooksDetached&) = delete;
  GradHooksDetached& operator=(const GradHooksDetached&) = delete;

 private:
  std::vector<std::pair<at::Tensor, std::unique_ptr<torch::autograd::PostAccumulateGradHook>>>
      kept_;
};

}  // namespace accrue::proof
