// A step by a function: the `.grad` that it sees.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "accrue/accum/accumulator.h"
#include "accum/problem.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

namespace nn = torch::nn;

nn::Sequential stepped_model(at::ScalarType dtype = at::kDouble) {
  torch::manual_seed(1);
  nn::Sequential model(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 1));
  model->to(dtype);
  return model;
}

at::Tensor stepped_rows(at::ScalarType dtype = at::kDouble) {
  torch::manual_seed(2);
  return torch::randn({6, 4}, dtype);
}

Loss stepped_loss(nn::Sequential& model, const at::Tensor& x) {
  return {(model->forward(x) - 1).square().sum(), static_cast<double>(x.size(0))};
}

void accumulate_halves(Accumulator& accumulator, nn::Sequential& model, const at::Tensor& x) {
  accumulator.backward(stepped_loss(model, x.slice(0, 0, 2)));
  accumulator.backward(stepped_loss(model, x.slice(0, 2)));
}

std::vector<at::Tensor> plain_mean_gradient(const at::Tensor& x) {
  nn::Sequential model = stepped_model(x.scalar_type());
  const Loss whole = stepped_loss(model, x);
  return torch::autograd::grad({whole.sum / whole.weight}, model->parameters());
}

double worst_of_grads(const std::vector<at::Tensor>& parameters,
                      const std::vector<at::Tensor>& expected) {
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    error = std::max(error, testing::relative_error(parameters[i].grad(), expected[i]));
  return error;
}

TEST(AccumulatorStep, ShowsTheMeanWithinTheFunctionAndAfterIt) {
  nn::Sequential model = stepped_model();
  Accumulator accumulator(model);
  accumulate_halves(accumulator, model, stepped_rows());
  const std::vector<at::Tensor> mean = plain_mean_gradient(stepped_rows());
  std::vector<at::Tensor> sum;
  for (const at::Tensor& part : mean) sum.push_back(part * 6);
  double within = 1;
  accumulator.step(
      [&](accum::MeanGradient&&) { within = worst_of_grads(model->parameters(), mean); });
  EXPECT_LE(within, 1e-12);
  EXPECT_LE(worst_of_grads(model->parameters(), mean), 1e-12);
  EXPECT_GT(worst_of_grads(model->parameters(), sum), 0.5) << "the comparator sees a sum";
}

TEST(AccumulatorStep, StepsTwoOptimizersAsAPlainLoopDoes) {
  const auto train = [](bool plain) {
    nn::Sequential model = stepped_model();
    torch::optim::SGD first(model[0]->as<nn::Linear>()->parameters(), 0.1);
    torch::optim::AdamW second(model[2]->as<nn::Linear>()->parameters(),
                               torch::optim::AdamWOptions(0.01).eps(1e-3));
    Accumulator accumulator(model);
    for (int i = 0; i < 3; ++i) {
      if (plain) {
        model->zero_grad();
        const Loss whole = stepped_loss(model, stepped_rows());
        (whole.sum / whole.weight).backward();
        first.step();
        second.step();
        continue;
      }
      accumulate_halves(accumulator, model, stepped_rows());
      accumulator.step([&](accum::MeanGradient&&) {
        first.step();
        second.step();
      });
    }
    return testing::copies(model->parameters());
  };
  const auto expected = train(true), actual = train(false);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(testing::relative_error(actual[i], expected[i]), 1e-12);
}

TEST(AccumulatorStep, FinishShowsTheMeanToo) {
  nn::Sequential model = stepped_model();
  Accumulator accumulator(model);
  accumulate_halves(accumulator, model, stepped_rows());
  accumulator.finish([](accum::MeanGradient&&) {});
  EXPECT_LE(worst_of_grads(model->parameters(), plain_mean_gradient(stepped_rows())), 1e-12);
}

TEST(AccumulatorStep, ShowsWhatIsClippedWithinTheFunction) {
  nn::Sequential model = stepped_model();
  Accumulator accumulator(model);
  accumulate_halves(accumulator, model, stepped_rows());
  std::vector<at::Tensor> clipped;
  accumulator.step([&](accum::MeanGradient&& gradient) {
    gradient.clip(1e-3);
    for (const at::Tensor& parameter : model->parameters()) clipped.push_back(parameter.grad());
  });
  double squares = 0;
  for (const at::Tensor& part : clipped) squares += part.square().sum().item<double>();
  EXPECT_NEAR(std::sqrt(squares), 1e-3, 1e-12);
}

TEST(AccumulatorStep, GivesNarrowParametersTheirGradientWithinTheFunction) {
  nn::Linear model(4, 2);
  model->to(torch::kBFloat16);
  Accumulator accumulator(model);
  const at::Tensor x = torch::ones({1, 4}, torch::kBFloat16);
  for (int i = 0; i < 3; ++i) accumulator.backward({model->forward(x).sum(), 1});
  std::vector<at::Tensor> seen;
  accumulator.step([&](accum::MeanGradient&& gradient) {
    seen.push_back(model->weight.grad().clone());
    gradient.clip(0.5);
    seen.push_back(model->weight.grad().clone());
  });
  EXPECT_TRUE(at::equal(seen[0], at::ones_like(model->weight)));
  // 8 weights and 2 biases of gradient 1: the norm is sqrt(10).
  EXPECT_TRUE(
      testing::within(seen[1], at::full_like(model->weight, 0.5 / std::sqrt(10.0)), 0x1p-8));
  EXPECT_FALSE(model->weight.grad().defined()) << "the copy goes with the step";
}

TEST(AccumulatorStep, OfStagedSumsShowsTheMeanToo) {
  nn::Sequential model = stepped_model(at::kFloat);
  Accumulator accumulator(model, {.accumulate = accum::Accumulation::fp64});
  accumulate_halves(accumulator, model, stepped_rows(at::kFloat));
  accumulator.step([](accum::MeanGradient&&) {});
  EXPECT_LE(worst_of_grads(model->parameters(), plain_mean_gradient(stepped_rows(at::kFloat))),
            1e-5);
}

/// An optimizer that reads the gradient itself, and keeps a copy of it.
struct SumReader {
  void step(accum::MeanGradient&& gradient, double lr) {
    scale = gradient.scale();
    rate = lr;
    is_tensor = gradient.source(0).staged == nullptr;
    gradient.source(0).read(0, 1, &first);
  }
  double scale = 0, rate = 0, first = 0;
  bool is_tensor = false;
};

/// Gradients of 1 and 2^-12, of weights 1 and 2; their mean has more digits than fp32.
double sum_of(Accumulator& accumulator, const at::Tensor& weight) {
  accumulator.backward({weight.to(at::kDouble).sum(), 1});
  accumulator.backward({weight.to(at::kDouble).sum() * 0x1p-12, 2});
  return 1 + 0x1p-12;
}

TEST(AccumulatorStep, MakesNoMeanForWhoReadsTheSums) {
  using accum::Accumulation;
  for (const Accumulation accumulate :
       {Accumulation::fp32, Accumulation::fp64, Accumulation::fixed}) {
    const bool is_staged = accumulate != Accumulation::fp32;
    for (const bool finishes : {false, true}) {
      const at::Tensor weight = torch::ones({4}).requires_grad_();
      Accumulator accumulator({weight}, {.accumulate = accumulate});
      const double sum = sum_of(accumulator, weight);
      SumReader reader;
      const StepReport report =
          finishes ? accumulator.finish(reader, 0.5) : accumulator.step(reader, 0.5);
      EXPECT_TRUE(report.stepped);
      EXPECT_EQ(reader.rate, 0.5);
      EXPECT_EQ(reader.scale, 1.0 / 3) << "the sums are as they were added up";
      EXPECT_EQ(reader.first, sum);
      EXPECT_EQ(reader.is_tensor, !is_staged);
      EXPECT_FALSE(weight.grad().defined()) << "no sum is taken for a mean";
    }
  }
}

TEST(AccumulatorStep, OfAScopeMakesNoMeanEither) {
  const at::Tensor weight = torch::ones({4}).requires_grad_();
  Accumulator accumulator({weight});
  SumReader reader;
  auto window = accumulator.window();
  sum_of(accumulator, weight);
  window.step(reader, 0.5);
  EXPECT_EQ(reader.scale, 1.0 / 3);
}

}  // namespace
}  // namespace accrue
