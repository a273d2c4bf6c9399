#include <torch/torch.h>

#include "accrue/train/step.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using Tensors = std::vector<at::Tensor>;
using testing::relative_error;

torch::nn::Sequential network(double dropout) {
  torch::manual_seed(3);
  torch::nn::Sequential model(
      torch::nn::Linear(6, 16), torch::nn::GELU(torch::nn::GELUOptions().approximate("tanh")),
      torch::nn::Dropout(dropout), torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})),
      torch::nn::Dropout(dropout), torch::nn::Linear(16, 2));
  model->to(at::kDouble);
  return model;
}

Loss loss_of(torch::nn::Sequential& model, const Tensors& slice) {
  return {(model->forward(slice[0]) - slice[1]).square().sum(),
          static_cast<double>(slice[0].size(0))};
}

/// The parameters after three steps.
Tensors stepped(double dropout, StepOptions options) {
  torch::nn::Sequential model = network(dropout);
  torch::optim::SGD optimizer(model->parameters(), 0.05);
  torch::manual_seed(4);
  const Tensors batch{at::randn({13, 6}, at::kDouble), at::randn({13, 2}, at::kDouble)};
  Stepper stepper(model, optimizer, std::move(options));
  for (int i = 0; i < 3; ++i) stepper.step(batch, loss_of);
  return model->parameters();
}

double largest_difference(const Tensors& actual, const Tensors& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, relative_error(actual[i], expected[i]));
  return largest;
}

TEST(AcceleratedStep, IsTheStepWithoutIt) {
  const Tensors expected = stepped(0, {.micro_batch = 13});
  for (const std::int64_t micro : {0, 1, 4, 13})
    EXPECT_LT(largest_difference(stepped(0, {.micro_batch = micro, .accelerate = true}), expected),
              1e-12)
        << "micro-batches of " << micro;
}

TEST(AcceleratedStep, DropsTheSameWhateverTheSplit) {
  const Tensors whole = stepped(0.4, {.micro_batch = 13, .accelerate = true});
  for (const std::int64_t micro : {0, 1, 4, 7})
    EXPECT_LT(largest_difference(stepped(0.4, {.micro_batch = micro, .accelerate = true}), whole),
              1e-12)
        << "micro-batches of " << micro;
  EXPECT_GT(largest_difference(stepped(0.4, {.micro_batch = 4}), stepped(0.4, {.micro_batch = 13})),
            1e-3);
  EXPECT_GT(largest_difference(whole, stepped(0, {.micro_batch = 13, .accelerate = true})), 1e-3);
}

TEST(AcceleratedStep, LeavesLibtorchAsItWas) {
  torch::nn::Sequential model = network(0);
  torch::optim::SGD optimizer(model->parameters(), 0.05);
  const Tensors batch{at::randn({5, 6}, at::kDouble), at::randn({5, 2}, at::kDouble)};
  const auto stops = [](torch::nn::Sequential&, const Tensors&) -> Loss {
    throw std::runtime_error("no loss");
  };
  EXPECT_THROW(step(model, optimizer, batch, stops, {.accelerate = true}), std::runtime_error);
  const at::Tensor y = model->forward(batch[0]);
  EXPECT_EQ(y.grad_fn()->name(), "AddmmBackward0");
}

}  // namespace
}  // namespace accrue
