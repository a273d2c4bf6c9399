#pragma once

#include <torch/torch.h>

#include "accrue/core/loss.h"

namespace accrue::testing {

using Batch = std::vector<torch::Tensor>;

/// The sizes of most tests' batches.
inline constexpr std::int64_t regression_samples = 13, regression_features = 6;

/// Inputs, targets and a weight for each sample; no two small groups have the same weight.
inline Batch regression_batch(std::int64_t samples, std::int64_t features) {
  return {torch::randn({samples, features}), torch::randn({samples, 1}),
          torch::arange(1, samples + 1).reshape({samples, 1}).to(torch::kFloat)};
}

inline torch::nn::Sequential small_network(std::int64_t features) {
  return torch::nn::Sequential(torch::nn::Linear(features, 12), torch::nn::Tanh(),
                               torch::nn::Linear(12, 8), torch::nn::GELU(),
                               torch::nn::Linear(8, 1));
}

/// The weighted squared error: the sum and its weight.
inline Loss squared_error(torch::nn::Sequential& model, const Batch& micro) {
  const torch::Tensor error = (model->forward(micro[0]) - micro[1]).square() * micro[2];
  return {error.sum(), micro[2].sum().item<double>()};
}

}  // namespace accrue::testing
