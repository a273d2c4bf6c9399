#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "accrue/core/loss.h"
#include "accrue/core/parameter.h"

namespace accrue::testing {

/// A two-layer regression on micro-batches of unequal length whose backward has two stages. Only
/// the first micro-batch uses one of the parameters.
struct StagedProblem {
  NamedParameters parameters;
  std::vector<at::Tensor> inputs, targets;  ///< by micro-batch: [rows, 5], [rows, 3]

  std::size_t size() const { return inputs.size(); }
  double weight(std::size_t micro) const { return static_cast<double>(inputs[micro].size(0)); }
  const at::Tensor& parameter(std::size_t i) const { return parameters[i].tensor; }
  /// A rate at which it descends, whatever the number of hidden units.
  double rate() const { return 0.35 / static_cast<double>(parameter(1).numel()); }

  at::Tensor hidden(std::size_t micro) const {
    const at::Tensor sum = at::linear(inputs[micro], parameter(0), parameter(1));
    return at::tanh(micro == 0 ? sum + parameter(3) : sum);
  }
  at::Tensor loss_of(const at::Tensor& hidden_units, std::size_t micro) const {
    return (at::linear(hidden_units, parameter(2)) - targets[micro]).square().sum();
  }

  /// Forward and backward; calls `between` after each stage of the backward.
  Loss run(std::size_t micro, const std::function<void()>& between) const {
    const at::Tensor units = hidden(micro);
    const at::Tensor leaf = units.detach().requires_grad_(true);
    const at::Tensor loss = loss_of(leaf, micro);
    torch::autograd::backward({loss});
    between();
    torch::autograd::backward({units}, {leaf.grad()});
    between();
    return {loss.detach(), weight(micro)};
  }

  /// Plain gradient descent on the mean over micro-batches `taken`, by autograd alone.
  void descend(const std::vector<std::size_t>& taken, double rate) const {
    at::Tensor sum = at::zeros({}, parameter(0).options().requires_grad(false));
    double rows = 0;
    for (const std::size_t micro : taken) {
      sum = sum + loss_of(hidden(micro), micro);
      rows += weight(micro);
    }
    torch::autograd::variable_list leaves;
    for (const NamedParameter& parameter : parameters) leaves.push_back(parameter.tensor);
    const auto gradients = torch::autograd::grad({sum / rows}, leaves, {}, {}, false, true);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (gradients[i].defined()) leaves[i].sub_(gradients[i] * rate);
  }
};

constexpr std::size_t kStagedMicroBatches = 7;

/// The same values in any dtype.
inline StagedProblem make_staged_problem(at::ScalarType dtype, std::int64_t hidden = 7) {
  at::manual_seed(11);
  StagedProblem problem;
  const auto random = [&](at::IntArrayRef shape) {
    return at::randn(shape, at::dtype(at::kFloat)).to(dtype);
  };
  for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<std::int64_t>>>{
           {"first.weight", {hidden, 5}},
           {"first.bias", {hidden}},
           {"second.weight", {3, hidden}},
           {"offset", {hidden}}})
    problem.parameters.push_back({name, random(shape).requires_grad_(true)});
  for (std::size_t micro = 0; micro < kStagedMicroBatches; ++micro) {
    const auto rows = static_cast<std::int64_t>(1 + micro * micro % 8);
    problem.inputs.push_back(random({rows, 5}));
    problem.targets.push_back(random({rows, 3}));
  }
  return problem;
}

}  // namespace accrue::testing
