// Convolutions sum as many terms per weight as there are output pixels in the batch, with a
// different algorithm for each shape: that is rounding, and must hide no fault.
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/torch.h>

#include <random>

#include "accrue/verify/verify.h"
#include "networks.h"

namespace accrue {
namespace {

using proof::Cause;
using testing::Batch;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr std::int64_t channels = 3, side = 32, classes = 10;
constexpr int random_networks = 20;

Batch images(std::int64_t samples, torch::ScalarType dtype) {
  return {torch::randn({samples, channels, side, side}, dtype),
          torch::randint(classes, {samples}, torch::kLong)};
}

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
}

struct Traits {
  bool batch_norm = false, dropout = false;
};

/// Two convolutions with pooling, and a linear head.
torch::nn::Sequential network(Traits traits, torch::ScalarType dtype) {
  torch::nn::Sequential model;
  std::int64_t in = channels;
  for (const std::int64_t out : {16, 32}) {
    model->push_back(convolution(in, out));
    if (traits.batch_norm) model->push_back(torch::nn::BatchNorm2d(out));
    model->push_back(torch::nn::ReLU());
    model->push_back(torch::nn::MaxPool2d(2));
    in = out;
  }
  model->push_back(torch::nn::AdaptiveAvgPool2d(1));
  model->push_back(torch::nn::Flatten());
  if (traits.dropout) model->push_back(torch::nn::Dropout(0.3));
  model->push_back(torch::nn::Linear(in, classes));
  model->to(dtype);
  return model;
}

torch::Tensor cross_entropies(const torch::Tensor& logits, const torch::Tensor& labels) {
  return torch::nn::functional::cross_entropy(
      logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
}

Loss class_loss(torch::nn::Sequential& model, const Batch& micro) {
  return {cross_entropies(model->forward(micro[0]), micro[1]).sum(),
          static_cast<double>(micro[0].size(0))};
}

/// As torch.jit.script would convert a torch.nn.BatchNorm2d.
torch::jit::Module scripted_batch_norm(std::int64_t features, torch::ScalarType dtype) {
  torch::jit::Module layer("__torch__.torch.nn.modules.batchnorm.BatchNorm2d");
  layer.register_attribute("training", c10::BoolType::get(), true);
  layer.register_buffer("mean", torch::zeros({features}, dtype));
  layer.register_buffer("var", torch::ones({features}, dtype));
  layer.define(
      "def forward(self, x):\n"
      "  return torch.batch_norm(x, None, None, self.mean, self.var, self.training, 0.1, 1e-5, "
      "False)\n");
  return layer;
}

/// The same network in TorchScript.
torch::jit::Module scripted(Traits traits, torch::ScalarType dtype) {
  torch::jit::Module module("Network");
  const auto parameter = [&](const char* name, const std::vector<std::int64_t>& shape) {
    module.register_parameter(name, (0.2 * torch::randn(shape, dtype)).requires_grad_(), false);
  };
  parameter("first", {16, channels, 3, 3});
  parameter("first_bias", {16});
  parameter("second", {32, 16, 3, 3});
  parameter("second_bias", {32});
  parameter("head", {classes, 32});
  module.register_attribute("training", c10::BoolType::get(), true);
  if (traits.batch_norm) module.register_module("norm", scripted_batch_norm(16, dtype));
  module.define(
      "def forward(self, x):\n"
      "  x = torch.conv2d(x, self.first, self.first_bias, [1, 1], [1, 1])\n" +
      std::string(traits.batch_norm ? "  x = self.norm.forward(x)\n" : "") +
      "  x = torch.max_pool2d(torch.relu(x), [2, 2], [2, 2])\n"
      "  x = torch.relu(torch.conv2d(x, self.second, self.second_bias, [1, 1], [1, 1]))\n"
      "  x = x.mean([2, 3])\n" +
      (traits.dropout ? "  x = torch.dropout(x, 0.3, self.training)\n" : "") +
      "  return torch.matmul(x, self.head.t())\n");
  return module;
}

Loss scripted_loss(torch::jit::Module& model, const Batch& micro) {
  return {cross_entropies(model.forward({micro[0]}).toTensor(), micro[1]).sum(),
          static_cast<double>(micro[0].size(0))};
}

std::string told(const proof::Report& report) {
  std::string text = conclusion(report) + ::testing::PrintToString(report.evidence);
  for (const auto& split : report.splits)
    text += "\n  " + split.name + " " + split.parameter + " " +
            std::to_string(split.relative_error / split.bound) + " of its bound";
  return text;
}

class Convolutions : public ::testing::TestWithParam<torch::ScalarType> {
 protected:
  void SetUp() override { torch::manual_seed(3); }
  torch::ScalarType dtype() const { return GetParam(); }
  /// The limit that the effect of an undetected fault must not reach.
  double fine() const { return dtype() == torch::kDouble ? 1e-12 : 1e-3; }
  VerifyOptions options_{.micro_batches = {8, 3}};
};

TEST_P(Convolutions, PlainOnesAreEqual) {
  for (int i = 0; i < 8; ++i) {
    torch::nn::Sequential model = network({}, dtype());
    const proof::Report report = verify(model, images(32, dtype()), class_loss, options_);
    EXPECT_TRUE(report.equal) << i << ": " << told(report);
    EXPECT_TRUE(report.conclusive);
  }
}

/// One to three convolutions of any width, kernel, stride and grouping.
torch::nn::Sequential random_convolutions(std::mt19937& random, torch::ScalarType dtype) {
  const auto one_of = [&](std::initializer_list<std::int64_t> choices) {
    const auto last = static_cast<int>(choices.size()) - 1;
    return choices.begin()[std::uniform_int_distribution<int>(0, last)(random)];
  };
  torch::nn::Sequential model;
  std::int64_t in = channels;
  for (std::int64_t depth = one_of({1, 2, 3}); depth > 0; --depth) {
    const std::int64_t kernel = one_of({1, 3, 5}), groups = one_of({1, in});
    const std::int64_t out = groups * one_of({1, 2, 8});
    model->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                                           .padding(kernel / 2)
                                           .stride(one_of({1, 1, 2}))
                                           .groups(groups)
                                           .bias(one_of({0, 1}) == 1)));
    if (one_of({0, 1}) == 1) model->push_back(torch::nn::GroupNorm(1, out));
    if (one_of({0, 1}) == 1) {
      model->push_back(torch::nn::ReLU());
    } else {
      model->push_back(torch::nn::GELU());
    }
    in = out;
  }
  if (one_of({0, 1}) == 1) model->push_back(torch::nn::AdaptiveAvgPool2d(1));
  model->push_back(torch::nn::Flatten());
  const std::int64_t features = model->forward(torch::zeros({1, channels, side, side})).size(1);
  model->push_back(torch::nn::Linear(features, classes));
  model->to(dtype);
  return model;
}

TEST_P(Convolutions, NoFalseAlarmOverRandomOnes) {
  std::mt19937 random(9);
  double nearest = 0;
  for (int i = 0; i < random_networks; ++i) {
    torch::nn::Sequential model = random_convolutions(random, dtype());
    Batch batch = images(std::uniform_int_distribution<std::int64_t>(2, 40)(random), dtype());
    if (i % 2 == 0) batch[0] = batch[0].sigmoid();  // as pixels, whose mean is not 0
    std::uniform_int_distribution<std::int64_t> micro(1, batch[0].size(0));
    const proof::Report report =
        verify(model, batch, class_loss,
               {.micro_batches = {micro(random), micro(random)}, .noise_draws = 1});
    EXPECT_TRUE(report.equal) << i << ": " << told(report);
    for (const auto& split : report.splits) {
      nearest = std::max(nearest, split.relative_error / split.bound);
      EXPECT_GE(split.largest_error, split.relative_error);
    }
  }
  EXPECT_GT(nearest, 0.02) << "a bound that nothing comes near says nothing";
  RecordProperty("nearest_to_the_bound", std::to_string(nearest));
}

TEST_P(Convolutions, OneAloneIsEqualWithABoundThatSaysSomething) {
  torch::nn::Sequential model(convolution(channels, 16), torch::nn::Tanh(),
                              torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(),
                              torch::nn::Linear(16, classes));
  model->to(dtype());
  const proof::Report report = verify(model, images(32, dtype()), class_loss, options_);
  EXPECT_TRUE(report.equal) << told(report);
  for (const proof::ParameterError& parameter : report.parameters)
    EXPECT_LT(parameter.bound, fine()) << parameter.name;
}

TEST_P(Convolutions, TheirBatchNormIsNamed) {
  for (int i = 0; i < 4; ++i) {
    torch::nn::Sequential model = network({.batch_norm = true}, dtype());
    const proof::Report report = verify(model, images(16, dtype()), class_loss, options_);
    EXPECT_THAT(all_causes(report), ElementsAre(Cause::batchnorm)) << i << ": " << told(report);
  }
}

TEST_P(Convolutions, TheirBatchNormIsNamedBesidesDropout) {
  for (int i = 0; i < 4; ++i) {
    torch::nn::Sequential model = network({.batch_norm = true, .dropout = true}, dtype());
    const proof::Report report = verify(model, images(16, dtype()), class_loss, options_);
    EXPECT_THAT(all_causes(report), UnorderedElementsAre(Cause::dropout, Cause::batchnorm))
        << i << ": " << told(report);
  }
}

TEST_P(Convolutions, InTorchScriptAreToldLikewise) {
  const auto causes = [this](Traits traits) {
    torch::jit::Module model = scripted(traits, dtype());
    const proof::Report report = verify(model, images(16, dtype()), scripted_loss, options_);
    SCOPED_TRACE(told(report));
    return all_causes(report);
  };
  EXPECT_THAT(causes({}), ElementsAre());
  EXPECT_THAT(causes({.batch_norm = true}), ElementsAre(Cause::batchnorm));
  EXPECT_THAT(causes({.batch_norm = true, .dropout = true}),
              UnorderedElementsAre(Cause::dropout, Cause::batchnorm));
}

/// The gradient of the first convolution's bias has an error of a thousandth in micro-batches.
TEST_P(Convolutions, ABiasGradientOffByAThousandthIsFound) {
  for (int i = 0; i < 4; ++i) {
    torch::nn::Sequential model = network({}, dtype());
    bool whole = true;
    model[0]->as<torch::nn::Conv2dImpl>()->bias.register_hook(
        [&whole](const torch::Tensor& gradient) { return whole ? gradient : gradient * 1.001; });
    const auto loss = [&](torch::nn::Sequential& m, const Batch& micro) {
      whole = micro[0].size(0) > 8;
      return class_loss(m, micro);
    };
    EXPECT_FALSE(verify(model, images(32, dtype()), loss, options_).equal) << i;
  }
}

TEST_P(Convolutions, OneSampleOfThirtyTwoThatCountsTwiceIsFound) {
  for (int i = 0; i < 4; ++i) {
    torch::nn::Sequential model = network({}, dtype());
    const Batch batch = images(32, dtype());
    const torch::Tensor counted_twice = batch[0][17];
    const auto loss = [&](torch::nn::Sequential& m, const Batch& micro) {
      Loss total = class_loss(m, micro);
      for (std::int64_t k = 0; k < micro[0].size(0) && micro[0].size(0) == 8; ++k)
        if (torch::equal(micro[0][k].to(dtype()), counted_twice))
          total.sum =
              total.sum + class_loss(m, {micro[0].narrow(0, k, 1), micro[1].narrow(0, k, 1)}).sum;
      return total;
    };
    const proof::Report report = verify(model, batch, loss, options_);
    EXPECT_FALSE(report.equal) << i << ": " << told(report);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Convolutions, ::testing::Values(torch::kFloat, torch::kDouble),
                         [](const auto& of) { return c10::toString(of.param); });

}  // namespace
}  // namespace accrue
