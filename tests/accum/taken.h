#pragma once

#include "accrue/accum/accumulator.h"
#include "accum/problem.h"

namespace accrue::testing {

/// A step that leaves the mean gradient in the parameters' grad.
inline const Accumulator::StepFunction kTake = [](accum::MeanGradient&& gradient) {
  gradient.materialize();
};

inline std::vector<at::Tensor> gradients_of(const Problem& problem) {
  std::vector<at::Tensor> result;
  for (const auto& parameter : problem.parameters)
    result.push_back(parameter.tensor.grad().clone());
  return result;
}

}  // namespace accrue::testing
