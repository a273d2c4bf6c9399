#pragma once

#include <torch/torch.h>

#include <vector>

#include "accrue/core/loss.h"

namespace accrue::testing {

/// A small network in double with a batch of 13 samples.
struct Regression {
  Regression() {
    torch::manual_seed(1);
    model =
        torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
    model->to(torch::kDouble);
    inputs = torch::randn({13, 4}, torch::kDouble);
    targets = torch::randn({13, 1}, torch::kDouble);
    // Rows count unequally, as sequences of unequal length do.
    weights = torch::randint(0, 5, {13, 1}).to(torch::kDouble);
  }
  std::vector<torch::Tensor> batch() const { return {inputs, targets, weights}; }
  torch::nn::Sequential model{nullptr};
  torch::Tensor inputs, targets, weights;
};

inline Loss weighted_error(torch::nn::Sequential& model, const std::vector<torch::Tensor>& micro) {
  const torch::Tensor error = (model->forward(micro[0]) - micro[1]).square() * micro[2];
  return {error.sum(), micro[2].sum().item<double>()};
}

}  // namespace accrue::testing
