#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include "accum/accelerated_cases.h"

namespace accrue::accelerated {
namespace {

using testing::relative_error;
using testing::tolerance;

TEST(Accelerate, GivesTheResultsAndGradientsOfEachOperation) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat})
    for (const Case& c : all_cases()) {
      c.model->to(dtype);
      const Tensors expected = differentiated(c, input_of(c, dtype, 10));
      const Accelerated accelerated = accelerate(c.model);
      const Tensors actual = differentiated(c, input_of(c, dtype, 10));
      expect_close(actual, expected, bound_of(dtype), c.name);
      EXPECT_EQ(
          c.replaced ? c.replaced(accelerated.calls()) > 0 : count_all(accelerated.calls()) == 0,
          true)
          << c.name;
    }
}

TEST(Accelerate, AddsUpWhatAWindowAddsUpWithoutIt) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat})
    for (const Case& c : all_cases()) {
      c.model->to(dtype);
      const Tensors expected = window_sums(c, dtype);
      const Accelerated accelerated = accelerate(c.model);
      expect_close(window_sums(c, dtype), expected, bound_of(dtype), c.name);
    }
}

/// In fp32, in which accrue adds the weight's gradient: a penalty on the input's gradient.
TEST(Accelerate, DifferentiatesConvolutionsTwice) {
  for (const Case& c : convolution_cases()) {
    c.model->to(at::kFloat);
    const auto penalty = [&] {
      at::Tensor x = input_of(c, at::kFloat, 5).requires_grad_(true);
      const at::Tensor slope = torch::autograd::grad({uneven_loss(c.forward(x))}, {x}, {}, true,
                                                     /*create_graph=*/true)[0];
      return detached(torch::autograd::grad({slope.square().sum()}, c.model->parameters(), {}, {},
                                            false, true));
    };
    const Tensors expected = penalty();
    const Accelerated accelerated = accelerate(c.model);
    const Tensors actual = penalty();
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (expected[i].defined())
        EXPECT_TRUE(testing::within(actual[i], expected[i], bound_of(at::kFloat))) << c.name;
  }
}

TEST(Accelerate, SumsGradientsOfBf16InFp32) {
  for (const Case& c : product_cases()) {
    if (c.sizes[0] == 0) continue;
    c.model->to(at::kBFloat16);
    c.model->to(at::kDouble);
    const Tensors exact = window_sums(c, at::kDouble, at::kBFloat16);
    c.model->to(at::kBFloat16);
    const Accelerated accelerated = accelerate(c.model);
    const Tensors sums = window_sums(c, at::kBFloat16);
    for (std::size_t i = 0; i < exact.size(); ++i)
      EXPECT_LT(relative_error(sums[i], exact[i]), tolerance(at::kBFloat16).bound(kTerms))
          << c.name;
  }
}

TEST(Accelerate, AddsToSumsOfEveryPrecision) {
  for (const auto precision : {accum::Accumulation::fixed, accum::Accumulation::bf16_kahan}) {
    const Case c =
        of_module("layers",
                  nn::Sequential(nn::Linear(5, 8), nn::LayerNorm(nn::LayerNormOptions({8})),
                                 nn::Linear(8, 2)),
                  {6, 5}, count_products);
    const auto mean_gradients = [&] {
      Accumulator acc(*c.model, {.accumulate = precision});
      for (const std::uint64_t seed : {11, 12})
        acc.backward(Loss{uneven_loss(c.forward(input_of(c, at::kFloat, seed))), 1});
      Tensors gradients;
      acc.step([&](accum::MeanGradient&& mean) {
        mean.materialize();
        for (const at::Tensor& parameter : c.model->parameters())
          gradients.push_back(parameter.grad());
        gradients = detached(gradients);
      });
      return gradients;
    };
    const Tensors expected = mean_gradients();
    const Accelerated accelerated = accelerate(c.model);
    expect_close(mean_gradients(), expected, tolerance(at::kFloat).bound(kTerms), "a precision");
    EXPECT_GT(accelerated.calls().products, 0);
  }
}

TEST(Accelerate, TakesTorchScriptModules) {
  torch::jit::Module module("Network");
  const auto parameter = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    module.register_parameter(name, at::randn({rows, columns}, at::kDouble).requires_grad_(true),
                              false);
  };
  parameter("first", 5, 6);
  parameter("second", 4, 6);
  module.define(
      "def forward(self, x):\n"
      "  h = torch.tanh(torch.matmul(x, self.first))\n"
      "  return torch.matmul(h, self.second.t())\n");
  const at::Tensor x = at::randn({2, 3, 5}, at::kDouble);
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  const auto sums = [&] {
    Accumulator acc(module);
    acc.backward(Loss{uneven_loss(module.forward({x}).toTensor()), 1});
    const Tensors result =
        detached({module.attr("first").toTensor().grad(), module.attr("second").toTensor().grad()});
    acc.discard();
    return result;
  };
  const Tensors expected = sums();
  const Accelerated accelerated = accelerate(module);
  expect_close(sums(), expected, 1e-12, "TorchScript");
  EXPECT_EQ(accelerated.calls().products, 2);
}

TEST(Accelerate, IsToldApartFromAGradientThatLacksALittle) {
  const Case c = of_module("linear", nn::Linear(5, 7), {6, 5}, count_products);
  c.model->to(at::kDouble);
  const Tensors sums = window_sums(c, at::kDouble);
  EXPECT_FALSE(testing::within(sums[0] * (1 + 1e-11), sums[0], 1e-12));
  at::Tensor one_off = sums[0].clone();
  one_off[0][0] += sums[0].abs().max() * 1e-11;
  EXPECT_FALSE(testing::within(one_off, sums[0], 1e-12));
}

TEST(Accelerate, GivesSecondDerivatives) {
  for (const Case& c : all_cases()) {
    if (c.takes_ids || c.sizes[0] == 0) continue;
    c.model->to(at::kDouble);
    // Attention of libtorch's own has them in its plain form only.
    if (c.name.find("attention") != std::string::npos || c.name == "shared heads") continue;
    const auto penalty = [&] {
      at::Tensor x = input_of(c, at::kDouble, 5).requires_grad_(true);
      const at::Tensor slope = torch::autograd::grad({uneven_loss(c.forward(x))}, {x}, {}, true,
                                                     /*create_graph=*/true)[0];
      Tensors inputs = c.model->parameters();
      inputs.push_back(x);
      return detached(torch::autograd::grad({slope.square().sum()}, inputs, {}, {}, false, true));
    };
    const Tensors expected = penalty();
    const Accelerated accelerated = accelerate(c.model);
    const Tensors actual = penalty();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].defined(), expected[i].defined()) << c.name;
      if (expected[i].defined()) {
        EXPECT_LT(relative_error(actual[i], expected[i]), 1e-12) << c.name << ", tensor " << i;
      }
    }
  }
}

TEST(Accelerate, GivesSecondDerivativesOfAttention) {
  for (Case& c : attention_cases()) {
    c.model->to(at::kDouble);
    const Accelerated accelerated = accelerate(c.model);
    at::Tensor x = input_of(c, at::kDouble, 5).requires_grad_(true);
    if (c.name == "masked attention" || c.name == "attention to others") continue;
    const auto slope = [&](const at::Tensor& at) {
      return torch::autograd::grad({uneven_loss(c.forward(at))}, {at}, {}, true, true)[0];
    };
    const at::Tensor direction = at::randn_like(x);
    const at::Tensor exact = torch::autograd::grad({(slope(x) * direction).sum()}, {x})[0];
    const double step = 1e-5;
    const at::Tensor ahead = (x + step * direction).detach().requires_grad_(true);
    const at::Tensor behind = (x - step * direction).detach().requires_grad_(true);
    EXPECT_LT(relative_error(exact, (slope(ahead) - slope(behind)) / (2 * step)), 1e-7) << c.name;
  }
}

}  // namespace
}  // namespace accrue::accelerated
