// The optimizers for which dividing the loss by K is equivalent, and the others (docs/numerics.md,
// "What is equivalent and what is not").
#include <gtest/gtest.h>

#include <functional>

#include "accrue/optim/optimizer.h"
#include "support/tolerance.h"
#include "windows.h"

namespace accrue::optim {
namespace {

using testing::kLr;
using testing::kSteps;
using testing::make_parameters;
using testing::Windows;

constexpr double kDivisor = 8;

using Make = std::function<std::unique_ptr<Optimizer>(const NamedParameters&)>;

/// The change of all parameters in 20 steps, as one vector.
at::Tensor displacement(const Make& make, double loss_divisor, double lr) {
  const NamedParameters parameters = make_parameters(at::kDouble);
  const NamedParameters start = make_parameters(at::kDouble);
  Windows windows(parameters);
  const auto optimizer = make(parameters);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::vector<at::Tensor> sums = windows.sums(step);
    for (at::Tensor& sum : sums) sum = sum / loss_divisor;
    optimizer->step(windows.mean_of(sums, Windows::kWeight), lr);
  }
  std::vector<at::Tensor> moved;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    moved.push_back((parameters[i].tensor - start[i].tensor).detach().flatten());
  return at::cat(moved);
}

double norm_ratio(const at::Tensor& a, const at::Tensor& b) {
  return a.norm().item<double>() / b.norm().item<double>();
}

std::unique_ptr<Optimizer> sgd(const NamedParameters& p) {
  return make_sgd(p, default_groups(p, 0, false), {.momentum = 0.9});
}
std::unique_ptr<Optimizer> adamw(const NamedParameters& p) {
  return make_adam(p, default_groups(p, 0, false), {});
}
std::unique_ptr<Optimizer> rmsprop(const NamedParameters& p) {
  return make_rmsprop(p, default_groups(p, 0, false), {});
}

TEST(DividingTheLoss, IsDividingTheLearningRateForSgd) {
  const at::Tensor by_loss = displacement(sgd, kDivisor, kLr);
  const at::Tensor by_lr = displacement(sgd, 1, kLr / kDivisor);
  EXPECT_LE(accrue::testing::relative_error(by_loss, by_lr), 1e-12);
  EXPECT_NEAR(norm_ratio(displacement(sgd, 1, kLr), by_loss), kDivisor, 1e-9);
}

TEST(DividingTheLoss, ChangesNothingForAdamAndRmsPropWhileTheLearningRateDoes) {
  for (const Make& make : {Make(adamw), Make(rmsprop)}) {
    const at::Tensor plain = displacement(make, 1, kLr);
    EXPECT_NEAR(norm_ratio(displacement(make, kDivisor, kLr), plain), 1, 1e-4);
    EXPECT_NEAR(norm_ratio(displacement(make, 1, kLr / kDivisor), plain), 1 / kDivisor, 1e-9);
  }
}

TEST(DividingTheLoss, WithWeightDecayIsNotDividingTheLearningRateEvenForSgd) {
  const Make decaying = [](const NamedParameters& p) {
    return make_sgd(p, default_groups(p, 0.1, true), {.momentum = 0.9});
  };
  EXPECT_GT(accrue::testing::relative_error(displacement(decaying, kDivisor, kLr),
                                            displacement(decaying, 1, kLr / kDivisor)),
            0.05);
}

}  // namespace
}  // namespace accrue::optim
