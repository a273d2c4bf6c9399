#pragma once

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <string_view>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/core/error.h"
#include "accrue/core/loss.h"

namespace accrue::accum {

/// Whether libtorch reports that a graph was freed by an earlier backward pass through it.
inline bool says_differentiated_twice(const c10::Error& error) {
  return std::string_view(error.what_without_backtrace())
             .find("backward through the graph a second time") != std::string_view::npos;
}

/// Differentiates `roots` with respect to the buffer's parameters only; `gradients` are the
/// upstream gradients, or empty for scalars. Throws a usage Error if their graph was differentiated
/// before.
inline void differentiate(const GradientBuffer& buffer, const std::vector<at::Tensor>& roots,
                          const std::vector<at::Tensor>& gradients = {}) {
  torch::autograd::variable_list trained;
  for (const GradientBuffer::Entry& entry : buffer.entries())
    if (entry.parameter.requires_grad()) trained.push_back(entry.parameter);
  if (trained.empty()) return;
  try {
    torch::autograd::backward(roots, gradients, std::nullopt, false, trained);
  } catch (const c10::Error& error) {
    if (!says_differentiated_twice(error)) throw;
    throw usage_error("backward", "one loss for each forward pass",
                      "a second one, whose graph the first one's backward() has freed",
                      "one Loss of their sum, or expect() and backward(std::vector{first, second}) "
                      "where they have denominators of their own");
  }
}

/// Differentiates a loss's sum. Throws a usage Error if it does not depend on parameters.
inline void differentiate(const GradientBuffer& buffer, const Loss& loss) {
  if (!loss.sum.requires_grad())
    throw usage_error("backward", "a loss that depends on the parameters",
                      "one that requires no gradient",
                      "computing it without NoGradGuard, detach() or item()");
  differentiate(buffer, std::vector{loss.sum});
}

}  // namespace accrue::accum
