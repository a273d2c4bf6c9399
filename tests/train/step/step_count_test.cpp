// StepReport::step of the functional forms.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <sstream>

#include "accrue/train/coupled_step.h"
#include "accrue/train/step.h"
#include "train/regression.h"

namespace accrue {
namespace {

using testing::Regression;
using testing::weighted_error;

Loss not_finite(torch::nn::Sequential& model, const std::vector<torch::Tensor>& micro) {
  Loss loss = weighted_error(model, micro);
  loss.sum = loss.sum * std::nan("");
  return loss;
}

std::int64_t step_once(Regression& r, torch::optim::Optimizer& optimizer) {
  return step(r.model, optimizer, r.batch(), weighted_error, {.micro_batch = 5}).step;
}

TEST(StepCount, IsTheOptimizersWhereItCounts) {
  Regression r;
  const auto parameters = r.model->parameters();
  const auto counts = [&](std::unique_ptr<torch::optim::Optimizer> optimizer) {
    for (std::int64_t expected = 1; expected <= 3; ++expected)
      if (step_once(r, *optimizer) != expected) return false;
    return true;
  };
  EXPECT_TRUE(counts(std::make_unique<torch::optim::Adam>(parameters)));
  EXPECT_TRUE(counts(std::make_unique<torch::optim::AdamW>(parameters)));
  EXPECT_TRUE(counts(std::make_unique<torch::optim::RMSprop>(parameters)));
  EXPECT_TRUE(counts(std::make_unique<torch::optim::Adagrad>(parameters)));
  EXPECT_FALSE(counts(std::make_unique<torch::optim::SGD>(parameters, 0.1)))
      << "SGD keeps no count: Stepper's is for it";
}

TEST(StepCount, IsSavedAndLoadedWithTheOptimizer) {
  Regression r;
  torch::optim::AdamW first(r.model->parameters());
  step_once(r, first);
  step_once(r, first);
  std::stringstream file;
  torch::save(first, file);
  torch::optim::AdamW resumed(r.model->parameters());
  torch::load(resumed, file);
  EXPECT_EQ(step_once(r, resumed), 3);
}

TEST(StepCount, OfAStepperCountsForAnyOptimizer) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  Stepper stepper(r.model, optimizer, {.micro_batch = 5});
  EXPECT_EQ(stepper.step(r.batch(), weighted_error).step, 1);
  EXPECT_EQ(stepper.step(r.batch(), weighted_error).step, 2);
  const StepReport dropped = stepper.step(r.batch(), not_finite);
  EXPECT_FALSE(dropped.stepped);
  EXPECT_EQ(dropped.step, 2);
  EXPECT_EQ(stepper.step(r.batch(), weighted_error).step, 3);
}

TEST(StepCount, OfACoupledStepIsTheOptimizersToo) {
  Regression r;
  torch::optim::AdamW optimizer(r.model->parameters());
  const auto encode = [](torch::nn::Sequential& m, const torch::Tensor& slice) {
    return m->forward(slice);
  };
  const auto spread = [](const torch::Tensor& all) { return all.var(); };
  for (std::int64_t expected = 1; expected <= 2; ++expected)
    EXPECT_EQ(coupled_step(r.model, optimizer, r.inputs, encode, spread, {.micro_batch = 5}).step,
              expected);
}

}  // namespace
}  // namespace accrue
