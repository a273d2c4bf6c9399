#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/core/error.h"
#include "accrue/core/loss.h"

namespace accrue::accum {

/// Differentiates `roots` with respect to the buffer's parameters and no others; `gradients` are
/// upstream of them, or empty for scalars.
inline void differentiate(const GradientBuffer& buffer, const std::vector<at::Tensor>& roots,
                          const std::vector<at::Tensor>& gradients = {}) {
  torch::autograd::variable_list trained;
  for (const GradientBuffer::Entry& entry : buffer.entries())
    if (entry.parameter.requires_grad()) trained.push_back(entry.parameter);
  if (trained.empty()) return;
  torch::autograd::backward(roots, gradients, std::nullopt, false, trained);
}

/// Differentiates a loss's sum. Throws a usage Error where it does not depend on parameters.
inline void differentiate(const GradientBuffer& buffer, const Loss& loss) {
  if (!loss.sum.requires_grad())
    throw usage_error("backward", "a loss that depends on the parameters",
                      "one that requires no gradient",
                      "computing it without NoGradGuard, detach() or item()");
  differentiate(buffer, std::vector{loss.sum});
}

}  // namespace accrue::accum
