#include <gtest/gtest.h>
#include <torch/optim.h>

#include "accrue/optim/optimizer.h"
#include "support/tolerance.h"
#include "windows.h"

namespace accrue::optim {
namespace {

using testing::kDecay;
using testing::kLr;
using testing::kSteps;
using testing::make_parameters;
using testing::Windows;

constexpr double kBound = 1e-12;

using Tensors = std::vector<at::Tensor>;

/// Runs both on the same mean gradients in double and compares every parameter.
void expect_same(
    const char* name,
    const std::function<std::unique_ptr<Optimizer>(const NamedParameters&,
                                                   std::vector<ParameterGroup>)>& make,
    const std::function<std::unique_ptr<torch::optim::Optimizer>(Tensors)>& make_torch) {
  const NamedParameters ours = make_parameters(at::kDouble), theirs = make_parameters(at::kDouble);
  Tensors their_tensors;
  for (const auto& [parameter_name, tensor] : theirs) their_tensors.push_back(tensor);
  Windows windows(ours);
  const auto optimizer = make(ours, default_groups(ours, kDecay, true));
  const auto torch_optimizer = make_torch(their_tensors);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Tensors sums = windows.sums(step);
    for (std::size_t i = 0; i < sums.size(); ++i)
      their_tensors[i].mutable_grad() = sums[i] / Windows::kWeight;
    torch_optimizer->step();
    optimizer->step(windows.mean(step), kLr);
  }
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_LE(accrue::testing::relative_error(ours[i].tensor, theirs[i].tensor), kBound)
        << name << ' ' << ours[i].name;
}

TEST(TorchOptimTest, AdamW) {
  expect_same(
      "AdamW", [](const auto& p, auto g) { return make_adam(p, std::move(g), {}); },
      [](Tensors p) {
        return std::make_unique<torch::optim::AdamW>(
            p, torch::optim::AdamWOptions(kLr).betas({0.9, 0.95}).weight_decay(kDecay));
      });
}

TEST(TorchOptimTest, Adam) {
  expect_same(
      "Adam",
      [](const auto& p, auto g) { return make_adam(p, std::move(g), {.decoupled_decay = false}); },
      [](Tensors p) {
        return std::make_unique<torch::optim::Adam>(
            p, torch::optim::AdamOptions(kLr).betas({0.9, 0.95}).weight_decay(kDecay));
      });
}

TEST(TorchOptimTest, Sgd) {
  expect_same(
      "SGD", [](const auto& p, auto g) { return make_sgd(p, std::move(g), {}); },
      [](Tensors p) {
        return std::make_unique<torch::optim::SGD>(
            p, torch::optim::SGDOptions(kLr).momentum(0.9).weight_decay(kDecay));
      });
}

TEST(TorchOptimTest, RmsProp) {
  expect_same(
      "RMSprop",
      [](const auto& p, auto g) { return make_rmsprop(p, std::move(g), {.momentum = 0.5}); },
      [](Tensors p) {
        return std::make_unique<torch::optim::RMSprop>(
            p, torch::optim::RMSpropOptions(kLr).momentum(0.5).weight_decay(kDecay));
      });
}

}  // namespace
}  // namespace accrue::optim
