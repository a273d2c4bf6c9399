#pragma once

#include <random>
#include <vector>

#include "accrue/accum/loss_totals.h"
#include "accum/problem.h"

namespace accrue::testing {

/// The regression of Problem, with a second loss that only some samples have and a third that
/// counts by real numbers.
struct ThreeLosses {
  explicit ThreeLosses(std::uint64_t seed, at::ScalarType dtype = at::kDouble)
      : problem(make_problem(seed, dtype)) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
      boxes.push_back(random() % 3 == 0 ? static_cast<double>(1 + random() % 4) : 0);
      shares.push_back(static_cast<double>(random() % 1000) / 700);
    }
  }

  std::vector<Loss> losses(const std::vector<std::int64_t>& samples) const {
    Loss box{at::zeros({}, dtype()), 0}, share{at::zeros({}, dtype()), 0};
    for (const std::int64_t id : samples) {
      const auto i = static_cast<std::size_t>(id);
      const at::Tensor& first = problem.parameters[0].tensor;
      box.sum = box.sum + at::tanh(at::linear(problem.inputs[i], first)).sum() * boxes[i];
      share.sum = share.sum + at::linear(problem.inputs[i], first).square().mean() * shares[i];
      box.weight += boxes[i];
      share.weight += shares[i];
    }
    return {problem.loss(samples), box, share};
  }
  LossTotals totals(const std::vector<std::int64_t>& samples) const {
    std::vector<double> weights;
    for (const Loss& loss : losses(samples)) weights.push_back(loss.weight);
    return {weights, coefficients};
  }
  at::ScalarType dtype() const { return problem.parameters[0].tensor.scalar_type(); }

  at::Tensor total(const std::vector<Loss>& parts) const {
    at::Tensor total = at::zeros({}, dtype());
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i].weight > 0) total = total + parts[i].sum * (coefficients[i] / parts[i].weight);
    return total;
  }
  /// By plain autograd on all samples at once.
  std::vector<at::Tensor> reference(const std::vector<std::int64_t>& samples) const {
    torch::autograd::variable_list leaves;
    for (const NamedParameter& parameter : problem.parameters) leaves.push_back(parameter.tensor);
    return torch::autograd::grad({total(losses(samples))}, leaves);
  }
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> result;
    for (const auto& parameter : problem.parameters)
      result.push_back(parameter.tensor.grad().clone());
    return result;
  }

  Problem problem;
  std::vector<double> boxes, shares;
  std::vector<double> coefficients{1, 0.25, 3};
};

}  // namespace accrue::testing
