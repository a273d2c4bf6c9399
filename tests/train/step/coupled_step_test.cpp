#include "accrue/train/coupled_step.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <map>

#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kSamples = 13;

/// Two encoders and a temperature, as in contrastive image-text training.
struct TwoTowers : torch::nn::Module {
  explicit TwoTowers(double dropout = 0) {
    const auto tower = [&](std::int64_t inputs) {
      return torch::nn::Sequential(torch::nn::Linear(inputs, 12), torch::nn::Tanh(),
                                   torch::nn::Dropout(dropout), torch::nn::Linear(12, 5));
    };
    first = register_module("first", tower(6));
    second = register_module("second", tower(4));
    temperature = register_parameter("temperature", torch::full({}, 0.7));
    to(torch::kDouble);
  }
  torch::nn::Sequential first{nullptr}, second{nullptr};
  at::Tensor temperature;
};

struct Setting {
  explicit Setting(double dropout = 0) {
    torch::manual_seed(3);
    model = std::make_shared<TwoTowers>(dropout);
    batch = {torch::randn({kSamples, 6}, torch::kDouble),
             torch::randn({kSamples, 4}, torch::kDouble)};
    torch::manual_seed(4);
  }
  Tensors parameters() const { return model->parameters(); }
  /// With plain autograd, encoding in slices of these sizes with their graphs kept.
  Tensors reference(const std::vector<std::int64_t>& sizes = {kSamples});

  std::shared_ptr<TwoTowers> model;
  Tensors batch;
};

Tensors encode(const std::shared_ptr<TwoTowers>& model, const Tensors& slice) {
  return {model->first->forward(slice[0]), model->second->forward(slice[1])};
}

/// InfoNCE (van den Oord, Li, Vinyals, arXiv:1807.03748) in both directions: each sample against
/// all others.
at::Tensor contrastive(const Tensors& r, const at::Tensor& temperature) {
  const at::Tensor logits = r[0].matmul(r[1].t()) * temperature.exp();
  const at::Tensor own = torch::arange(logits.size(0));
  return (torch::nn::functional::cross_entropy(logits, own) +
          torch::nn::functional::cross_entropy(logits.t(), own)) /
         2;
}

Tensors Setting::reference(const std::vector<std::int64_t>& sizes) {
  std::vector<Tensors> towers(2);
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    const Tensors slice = encode(model, batch_slice(batch, begin, begin + size));
    for (std::size_t tower = 0; tower < 2; ++tower) towers[tower].push_back(slice[tower]);
    begin += size;
  }
  const at::Tensor loss = contrastive({at::cat(towers[0]), at::cat(towers[1])}, model->temperature);
  return torch::autograd::grad({loss}, parameters());
}

/// The gradient with which `run` took its step.
template <class Run>
Tensors gradient_of(Setting& setting, Run&& run) {
  torch::optim::SGD optimizer(setting.parameters(), 1.0);
  run(optimizer);
  Tensors gradients;
  for (const at::Tensor& parameter : setting.parameters())
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone()
                                                   : at::zeros_like(parameter));
  return gradients;
}

Tensors coupled_gradient(Setting& setting, std::int64_t micro) {
  return gradient_of(setting, [&](torch::optim::Optimizer& optimizer) {
    const StepReport report = coupled_step(
        setting.model, optimizer, setting.batch,
        [](auto& model, const Tensors& slice) { return encode(model, slice); },
        [&](const Tensors& r) { return contrastive(r, setting.model->temperature); },
        {.micro_batch = micro});
    EXPECT_TRUE(report.stepped);
    EXPECT_EQ(report.samples, kSamples);
    EXPECT_EQ(report.weight, 1);
  });
}

double worst(const Tensors& actual, const Tensors& expected) {
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    error = std::max(error, testing::relative_error(actual[i], expected[i]));
  return error;
}

TEST(CoupledStep, EqualsTheFullBatchForEverySplit) {
  for (const std::int64_t micro : {0, 1, 2, 3, 7, 12, 13, 100}) {
    Setting setting;
    const Tensors expected = setting.reference();
    EXPECT_LT(worst(coupled_gradient(setting, micro), expected), 1e-12) << "micro-batch " << micro;
  }
}

TEST(CoupledStep, IsToldApartFromAccumulatingTheMicroBatchesLosses) {
  Setting setting;
  const Tensors expected = setting.reference();
  const Tensors plain = gradient_of(setting, [&](torch::optim::Optimizer& optimizer) {
    step(setting.model, optimizer, setting.batch,
         [&](auto& model, const Tensors& slice) {
           const auto count = static_cast<double>(slice[0].size(0));
           return Loss{contrastive(encode(model, slice), model->temperature) * count, count};
         },
         {.micro_batch = 3});
  });
  EXPECT_GT(worst(plain, expected), 0.1);
}

TEST(CoupledStep, DrawsTheSameDropoutInBothPasses) {
  // Slices are as equal as possible.
  const std::map<std::int64_t, std::vector<std::int64_t>> sizes{
      {2, {2, 2, 2, 2, 2, 2, 1}}, {5, {5, 4, 4}}, {13, {13}}};
  for (const auto& [micro, slices] : sizes) {
    Setting setting(0.4);
    const Tensors expected = setting.reference(slices);
    const at::Tensor next = at::rand({4});
    torch::manual_seed(4);
    EXPECT_LT(worst(coupled_gradient(setting, micro), expected), 1e-12) << "micro-batch " << micro;
    // Each sample drew once, as in one pass.
    EXPECT_TRUE(at::equal(at::rand({4}), next));
  }
}

TEST(CoupledStep, TakesOneTowerAndALossOfSumAndWeight) {
  Setting setting;
  const at::Tensor whole = setting.model->first->forward(setting.batch[0]);
  const auto spread = [](const at::Tensor& r) {
    return Loss{r.matmul(r.t()).square().sum(), static_cast<double>(r.size(0))};
  };
  const Loss loss = spread(whole);
  const Tensors leaves = setting.model->first->parameters();
  const Tensors expected = torch::autograd::grad({loss.sum / loss.weight}, leaves);
  const Tensors actual = gradient_of(setting, [&](torch::optim::Optimizer& optimizer) {
    const StepReport report = coupled_step(
        setting.model, optimizer, setting.batch,
        [](auto& model, const Tensors& slice) { return model->first->forward(slice[0]); }, spread,
        {.micro_batch = 4});
    EXPECT_EQ(report.weight, kSamples);
    EXPECT_NEAR(report.loss.value(), loss.sum.item<double>() / kSamples, 1e-9);
  });
  // The order of names: temperature first, then the towers.
  for (std::size_t i = 0; i < leaves.size(); ++i)
    EXPECT_LT(testing::relative_error(actual[i + 1], expected[i]), 1e-12);
}

TEST(CoupledStep, ClipsTheGradientOfTheWholeBatch) {
  Setting setting;
  double squares = 0;
  for (const at::Tensor& gradient : setting.reference())
    squares += gradient.square().sum().item<double>();
  double seen = 0;
  for (const at::Tensor& gradient : gradient_of(setting, [&](torch::optim::Optimizer& optimizer) {
         const StepReport report = coupled_step(
             setting.model, optimizer, setting.batch,
             [](auto& model, const Tensors& slice) { return encode(model, slice); },
             [&](const Tensors& r) { return contrastive(r, setting.model->temperature); },
             {.clip_norm = 1e-3, .micro_batch = 4});
         EXPECT_NEAR(report.grad_norm.value(), std::sqrt(squares), 1e-12);
       }))
    seen += gradient.square().sum().item<double>();
  EXPECT_NEAR(std::sqrt(seen), 1e-3, 1e-12);
}

at::Tensor square_loss(const Tensors& r) { return r[0].square().mean(); }

TEST(CoupledStep, RefusesEncodersThatItCannotRunTwice) {
  Setting setting;
  torch::optim::SGD optimizer(setting.parameters(), 1.0);
  const auto run = [&](const auto& encode_slice) {
    return error_of([&] {
      coupled_step(setting.model, optimizer, setting.batch, encode_slice, square_loss,
                   {.micro_batch = 4});
    });
  };
  int calls = 0;
  EXPECT_THAT(run([&](auto& model, const Tensors& slice) {
                return model->first->forward(slice[0]) * ++calls;
              }),
              HasSubstr("the same representations in both passes"));
  EXPECT_THAT(
      run([](auto& model, const Tensors& slice) { return model->first->forward(slice[0])[0]; }),
      HasSubstr("one row for each of 4 samples"));

  auto normed = torch::nn::Sequential(torch::nn::Linear(6, 3), torch::nn::BatchNorm1d(3));
  normed->to(torch::kDouble);
  torch::optim::SGD other(normed->parameters(), 0.1);
  const auto forward = [](auto& model, const Tensors& slice) { return model->forward(slice[0]); };
  EXPECT_THAT(error_of([&] {
                coupled_step(normed, other, setting.batch, forward, square_loss,
                             {.micro_batch = 4});
              }),
              HasSubstr("batch normalisation"));
  EXPECT_TRUE(coupled_step(normed, other, setting.batch, forward, square_loss, {.micro_batch = 13})
                  .stepped);
}

TEST(CoupledStep, LeavesTheParametersAloneWithoutAFiniteLoss) {
  Setting setting;
  setting.batch[0][5].fill_(std::nan(""));
  Tensors before;
  for (const at::Tensor& parameter : setting.parameters())
    before.push_back(parameter.detach().clone());
  torch::optim::SGD optimizer(setting.parameters(), 1.0);
  const StepReport report = coupled_step(
      setting.model, optimizer, setting.batch,
      [](auto& model, const Tensors& slice) { return encode(model, slice); },
      [&](const Tensors& r) { return contrastive(r, setting.model->temperature); },
      {.micro_batch = 4});
  EXPECT_FALSE(report.stepped);
  EXPECT_EQ(report.quarantined, 1);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(setting.parameters()[i], before[i]));
}

TEST(CoupledStep, RefusesAnEmptyBatch) {
  Setting setting;
  torch::optim::SGD optimizer(setting.parameters(), 1.0);
  const Tensors empty = batch_slice(setting.batch, 0, 0);
  EXPECT_THAT(error_of([&] {
                coupled_step(
                    setting.model, optimizer, empty,
                    [](auto& model, const Tensors& slice) { return encode(model, slice); },
                    square_loss);
              }),
              HasSubstr("at least one sample"));
}

}  // namespace
}  // namespace accrue
