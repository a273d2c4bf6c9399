#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "accrue/core/loss.h"
#include "accrue/core/parameter.h"
#include "support/errors.h"

namespace accrue::testing {

/// A two-layer regression on samples of different lengths: small, and every gradient entry is a sum
/// over all rows, so that a wrong weighting shows in all of them.
struct Problem {
  NamedParameters parameters;
  std::vector<at::Tensor> inputs;   ///< [rows of the sample, 5]
  std::vector<at::Tensor> targets;  ///< [rows of the sample, 3]
  std::int64_t rows = 0;

  std::vector<std::int64_t> all() const {
    std::vector<std::int64_t> ids(inputs.size());
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }

  Loss loss(const std::vector<std::int64_t>& samples) const {
    std::vector<at::Tensor> x, y;
    for (const std::int64_t i : samples) {
      x.push_back(inputs[static_cast<std::size_t>(i)]);
      y.push_back(targets[static_cast<std::size_t>(i)]);
    }
    const at::Tensor input = at::cat(x);
    const at::Tensor hidden =
        at::tanh(at::linear(input, parameters[0].tensor, parameters[1].tensor));
    const at::Tensor output = at::linear(hidden, parameters[2].tensor);
    return {(output - at::cat(y)).square().sum(), static_cast<double>(input.size(0))};
  }

  /// The full batch's mean gradient, by plain autograd.
  std::vector<at::Tensor> reference() const {
    const Loss all_at_once = loss(all());
    torch::autograd::variable_list leaves;
    for (const NamedParameter& parameter : parameters) leaves.push_back(parameter.tensor);
    return torch::autograd::grad({all_at_once.sum / all_at_once.weight}, leaves);
  }
};

inline Problem make_problem(std::uint64_t seed, at::ScalarType dtype, std::int64_t samples = 12) {
  at::manual_seed(seed);
  const auto options = at::TensorOptions().dtype(dtype);
  Problem problem;
  const auto parameter = [&](const char* name, at::IntArrayRef shape) {
    problem.parameters.push_back({name, at::randn(shape, options).requires_grad_(true)});
  };
  parameter("first.weight", {7, 5});
  parameter("first.bias", {7});
  parameter("second.weight", {3, 7});
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t length = at::randint(1, 9, {1}).item<std::int64_t>();
    problem.inputs.push_back(at::randn({length, 5}, options));
    problem.targets.push_back(at::randn({length, 3}, options));
    problem.rows += length;
  }
  return problem;
}

inline Loss nan_loss(const Problem& problem) {
  return {problem.loss({0}).sum * std::numeric_limits<double>::quiet_NaN(), 4};
}

inline std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.clone());
  return result;
}

inline bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i], b[i])) return false;
  return true;
}

}  // namespace accrue::testing
