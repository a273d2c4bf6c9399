#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "accrue/core/loss.h"

namespace accrue::testing {

/// The problem that the loops of the tests train: a small network, and for each window 23 samples
/// that count unequally, as sequences of unequal length do. It is the same in every process.
struct LoopProblem {
  static constexpr std::int64_t kWindows = 4, kSamples = 23;
  static constexpr double kClip = 0.4, kRate = 0.3, kBoxes = 0.25;

  explicit LoopProblem(std::uint64_t seed = 7, at::ScalarType dtype = at::kDouble) {
    torch::manual_seed(seed);
    model =
        torch::nn::Sequential(torch::nn::Linear(5, 9), torch::nn::Tanh(), torch::nn::Linear(9, 3));
    model->to(dtype);
    torch::manual_seed(11);
    inputs = torch::randn({kWindows, kSamples, 5}, torch::kDouble).to(dtype);
    targets = torch::randn({kWindows, kSamples, 3}, torch::kDouble).to(dtype);
    weights = torch::randint(0, 5, {kWindows, kSamples, 1}).to(dtype);
    marks = torch::randint(0, 2, {kWindows, kSamples, 1}).to(dtype);
  }

  torch::optim::SGD optimizer() {
    return torch::optim::SGD(model->parameters(), torch::optim::SGDOptions(kRate).momentum(0.9));
  }

  /// The weighted error of samples [begin, end) of a window.
  Loss loss(std::int64_t window, std::int64_t begin, std::int64_t end) {
    const auto rows = [&](const at::Tensor& all) { return all[window].slice(0, begin, end); };
    const at::Tensor error = model->forward(rows(inputs)) - rows(targets);
    return {.sum = (error.square() * rows(weights)).sum(),
            .weight = rows(weights).sum().item<double>()};
  }

  /// Two losses with separate denominators: the error, and that of marked samples alone.
  std::vector<Loss> losses(std::int64_t window, std::int64_t begin, std::int64_t end) {
    const auto rows = [&](const at::Tensor& all) { return all[window].slice(0, begin, end); };
    const at::Tensor marked = (model->forward(rows(inputs)) - rows(targets)).abs() * rows(marks);
    return {loss(window, begin, end),
            {.sum = marked.sum(), .weight = rows(marks).sum().item<double>()}};
  }

  torch::nn::Sequential model{nullptr};
  at::Tensor inputs, targets, weights, marks;
};

/// A contrastive loss over a window's samples, whose two towers share a network, with a trained
/// temperature.
struct CoupledModule : torch::nn::Module {
  CoupledModule() {
    tower = register_module("tower", torch::nn::Linear(5, 4));
    temperature = register_parameter("temperature", torch::zeros({}));
    to(torch::kDouble);
  }
  std::vector<at::Tensor> encode(const std::vector<at::Tensor>& slice) {
    return {torch::tanh(tower->forward(slice[0])), torch::tanh(tower->forward(slice[1]))};
  }
  at::Tensor loss(const std::vector<at::Tensor>& towers) const {
    const at::Tensor scores = towers[0].matmul(towers[1].t()) * temperature.exp();
    return torch::nn::functional::cross_entropy(scores,
                                                torch::arange(scores.size(0), torch::kLong));
  }
  torch::nn::Linear tower{nullptr};
  at::Tensor temperature;
};
TORCH_MODULE_IMPL(Coupled, CoupledModule);

/// A part of a window that runs at once, and the rank that runs it.
struct LoopMicro {
  std::int64_t begin = 0, end = 0, rank = 0;
};

/// A random split of a window's samples: sizes from 1 to 7, ranks in any order, so that some may
/// have none. With `in_order` each rank has one sample reserved, and each rank's samples are
/// consecutive, in order of rank.
inline std::vector<LoopMicro> random_split(std::uint64_t seed, std::int64_t window,
                                           std::int64_t world, bool in_order = false) {
  std::mt19937_64 random(1000 * seed + static_cast<std::uint64_t>(window));
  std::vector<LoopMicro> split;
  for (std::int64_t begin = 0; begin < LoopProblem::kSamples;) {
    const auto size = static_cast<std::int64_t>(random() % 7) + 1;
    const std::int64_t end = std::min(begin + size, LoopProblem::kSamples);
    std::int64_t rank = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(world));
    if (in_order && !split.empty()) rank = std::max(rank, split.back().rank);
    split.push_back({begin, end, rank});
    begin = end;
  }
  return split;
}

}  // namespace accrue::testing
