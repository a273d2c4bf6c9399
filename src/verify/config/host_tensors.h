#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "accrue/core/parameter.h"

// Compared values are in host memory, whatever the device on which they were computed.
namespace accrue::proof {

/// The current values of the parameters, in host memory.
inline std::vector<at::Tensor> copies_of(const NamedParameters& parameters) {
  std::vector<at::Tensor> copies;
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor values = parameter.tensor.detach();
    copies.push_back(values.is_cpu() ? values.clone() : values.cpu());
  }
  return copies;
}

/// Plain autograd's gradients; zeros for parameters on which the loss does not depend.
inline std::vector<at::Tensor> gradients_of(const at::Tensor& loss,
                                            const NamedParameters& parameters) {
  std::vector<at::Tensor> leaves;
  for (const NamedParameter& parameter : parameters) leaves.push_back(parameter.tensor);
  std::vector<at::Tensor> gradients(leaves.size());
  if (loss.requires_grad())
    gradients = torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, true);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    gradients[i] =
        (gradients[i].defined() ? gradients[i] : at::zeros_like(leaves[i]).detach()).cpu();
  return gradients;
}

}  // namespace accrue::proof
