#pragma once

#include <torch/torch.h>

#include "accrue/core/loss.h"

namespace accrue::testing {

using Batch = std::vector<torch::Tensor>;

/// Of most tests' batches.
inline constexpr std::int64_t regression_samples = 13, regression_features = 6;

/// Inputs, targets and a weight for every sample, of which no two small groups weigh the same.
inline Batch regression_batch(std::int64_t samples, std::int64_t features) {
  return {torch::randn({samples, features}), torch::randn({samples, 1}),
          torch::arange(1, samples + 1).reshape({samples, 1}).to(torch::kFloat)};
}

inline torch::nn::Sequential small_network(std::int64_t features) {
  return torch::nn::Sequential(torch::nn::Linear(features, 12), torch::nn::Tanh(),
                               torch::nn::Linear(12, 8), torch::nn::GELU(),
                               torch::nn::Linear(8, 1));
}

/// The weighted squared error: a sum, and the weight it is of.
inline Loss squared_error(torch::nn::Sequential& model, const Batch& micro) {
  const torch::Tensor error = (model->forward(micro[0]) - micro[1]).square() * micro[2];
  return {error.sum(), micro[2].sum().item<double>()};
}

}  // namespace accrue::testing
