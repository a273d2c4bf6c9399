#include "train/window/noise_meter.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "accrue/accum/window.h"

namespace accrue::train {
namespace {

using ::testing::ElementsAre;

constexpr double kBeta2 = 0.95, kEps = 1e-8;

/// Samples x ~ N(mean, spread^2) attract parameters p by |p - x|^2 / 2, so a sample's gradient is p
/// - x: tr(Sigma) is spread^2 times the number of elements, and G is p - mean.
struct Quadratic {
  static constexpr std::int64_t kElements = 400;
  static constexpr double kSpread = 2, kDistance = 0.6;

  Quadratic() {
    at::manual_seed(11);
    parameters = {
        {"h.0.weight", at::full({300}, kDistance, at::kFloat).requires_grad_(true)},
        {"h.1.weight", at::full({kElements - 300}, kDistance, at::kFloat).requires_grad_(true)}};
    optimizer = optim::make_adam(parameters, optim::default_groups(parameters, 0, true),
                                 {.beta2 = kBeta2, .eps = kEps});
  }

  /// Adds the gradient of `samples` samples; returns their sum's gradient, in double.
  at::Tensor add(accum::Window& window, std::int64_t samples) const {
    at::Tensor sum = at::zeros({kElements}, at::kDouble);
    window.begin({});
    const at::Tensor noise = at::randn({samples, kElements}) * kSpread;
    std::int64_t first = 0;
    std::vector<at::Tensor> losses;
    for (const NamedParameter& p : parameters) {
      const at::Tensor of_p = noise.narrow(1, first, p.tensor.numel());
      losses.push_back(((p.tensor - of_p).square() / 2).sum());
      first += p.tensor.numel();
    }
    torch::autograd::backward(losses);
    window.commit(1, static_cast<double>(samples));
    return (kDistance - noise.to(at::kDouble)).sum(0);
  }

  static double truth() { return kSpread * kSpread / (kDistance * kDistance); }

  NamedParameters parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
};

double squared(const at::Tensor& gradient) { return gradient.square().sum().item<double>(); }

TEST(NoiseMeter, TakesTheNormsThatTheGradientsHave) {
  const Quadratic problem;
  for (const auto accumulation : {accum::Accumulation::fp32, accum::Accumulation::fixed}) {
    const auto buffer = std::make_shared<accum::GradientBuffer>(problem.parameters, accumulation);
    accum::Window window(buffer);
    NoiseMeter meter(*buffer, *problem.optimizer, {.detail = NoiseDetail::blocks});
    window.open(0);
    meter.begin(0);
    const at::Tensor part = problem.add(window, 3);
    meter.see_part(3);
    const at::Tensor whole = part + problem.add(window, 5);
    auto gradient = window.close();
    const auto reading = meter.read(meter.sums(), *gradient);
    ASSERT_TRUE(reading);
    const double of_part = squared(part / 3), of_whole = squared(whole / 8);
    const double variance = (of_part - of_whole) / (1.0 / 3 - 1.0 / 8);
    EXPECT_NEAR(reading->total.variance / variance, 1, 1e-5);
    EXPECT_NEAR(reading->total.squared_gradient, of_whole - variance / 8, 1e-5 * of_whole);
    EXPECT_THAT(meter.block_names(), ElementsAre("h.0", "h.1"));
    ASSERT_TRUE(reading->blocks[0] && reading->blocks[1]);
    EXPECT_NEAR((reading->blocks[0]->variance + reading->blocks[1]->variance) / variance, 1, 1e-5);
    EXPECT_FALSE(reading->in_geometry);
  }
}

TEST(NoiseMeter, TakesWhatSeveralRanksAddUpAsAMean) {
  const Quadratic problem;
  const auto buffer = std::make_shared<accum::GradientBuffer>(problem.parameters);
  accum::Window window(buffer);
  NoiseMeter meter(*buffer, *problem.optimizer, {});
  window.open(0);
  meter.begin(0);
  problem.add(window, 3);
  meter.see_part(3);
  problem.add(window, 5);
  auto gradient = window.close();
  std::vector<double> twice = meter.sums();
  for (double& sum : twice) sum *= 2;
  EXPECT_EQ(meter.read(twice, *gradient)->total.variance,
            meter.read(meter.sums(), *gradient)->total.variance);
}

TEST(NoiseMeter, TellsNothingWithoutAPart) {
  const Quadratic problem;
  const auto buffer = std::make_shared<accum::GradientBuffer>(problem.parameters);
  accum::Window window(buffer);
  NoiseMeter counting(*buffer, *problem.optimizer, {}), silent(*buffer, *problem.optimizer, {});
  window.open(0);
  counting.begin(0);
  silent.begin(0, /*is_counted=*/false);
  problem.add(window, 3);
  silent.see_part(3);
  auto gradient = window.close();
  EXPECT_FALSE(counting.read(counting.sums(), *gradient));
  EXPECT_FALSE(silent.read(silent.sums(), *gradient));
}

/// In a metric the norms are those of gradients divided by the root of Adam's denominator.
TEST(NoiseMeter, MeasuresInTheOptimizersGeometry) {
  Quadratic problem;
  NamedParameters state = problem.optimizer->state();
  for (NamedParameter& tensor : state) {
    if (tensor.name == "step") continue;
    const at::NoGradGuard no_grad;
    tensor.tensor.copy_(at::rand(tensor.tensor.sizes()) * 4);
  }
  const auto buffer = std::make_shared<accum::GradientBuffer>(problem.parameters);
  accum::Window window(buffer);
  NoiseMeter meter(*buffer, *problem.optimizer,
                   {.geometry = NoiseGeometry::optimizer, .beta2 = kBeta2, .eps = kEps});
  NoiseMeter by_signs(*buffer, *problem.optimizer, {.geometry = NoiseGeometry::sign});
  window.open(0);
  meter.begin(7);
  by_signs.begin(7);
  const at::Tensor part = problem.add(window, 3);
  meter.see_part(3);
  by_signs.see_part(3);
  const at::Tensor whole = part + problem.add(window, 5);
  auto gradient = window.close();
  std::vector<at::Tensor> moments;
  for (const NamedParameter& tensor : state)
    if (tensor.name.starts_with("exp_avg_sq.")) moments.push_back(tensor.tensor.to(at::kDouble));
  const at::Tensor divisor = (at::cat(moments) / (1 - std::pow(kBeta2, 7))).sqrt() + kEps;
  const double of_part = squared(part / 3 / divisor.sqrt()),
               of_whole = squared(whole / 8 / divisor.sqrt());
  const double variance = (of_part - of_whole) / (1.0 / 3 - 1.0 / 8);
  const auto reading = meter.read(meter.sums(), *gradient);
  ASSERT_TRUE(reading && reading->in_geometry);
  EXPECT_NEAR(reading->in_geometry->variance / variance, 1, 1e-5);
  const double sign_part = (part / 3).abs().sum().item<double>(),
               sign_whole = (whole / 8).abs().sum().item<double>();
  const auto by_sign = by_signs.read(by_signs.sums(), *gradient);
  ASSERT_TRUE(by_sign && by_sign->in_geometry);
  EXPECT_NEAR(by_sign->in_geometry->variance * (1.0 / 3 - 1.0 / 8) /
                  (sign_part * sign_part - sign_whole * sign_whole),
              1, 1e-5);
}

TEST(NoiseMeter, OfASecondMomentThatIsNotThereMeasuresTheEuclideanNormAlone) {
  Quadratic problem;
  problem.optimizer =
      optim::make_sgd(problem.parameters, optim::default_groups(problem.parameters, 0, true), {});
  const auto buffer = std::make_shared<accum::GradientBuffer>(problem.parameters);
  accum::Window window(buffer);
  NoiseMeter meter(*buffer, *problem.optimizer, {.geometry = NoiseGeometry::optimizer});
  window.open(0);
  meter.begin(3);
  problem.add(window, 3);
  meter.see_part(3);
  problem.add(window, 5);
  auto gradient = window.close();
  const auto reading = meter.read(meter.sums(), *gradient);
  ASSERT_TRUE(reading);
  EXPECT_FALSE(reading->in_geometry);
}

/// Over a hundred windows the averages approach the closed form, if the batch is at least a quarter
/// of the noise scale.
TEST(NoiseMeter, ComesToTheClosedFormOfAQuadratic) {
  const Quadratic problem;
  const auto buffer = std::make_shared<accum::GradientBuffer>(problem.parameters);
  accum::Window window(buffer);
  NoiseMeter meter(*buffer, *problem.optimizer, {});
  for (const std::int64_t batch : {4, 12, 24}) {
    ASSERT_GE(4 * static_cast<double>(batch), Quadratic::truth());
    adapt::NoiseAverage average(0.99);
    for (std::int64_t index = 0; index < 150; ++index) {
      window.open(index);
      meter.begin(index);
      problem.add(window, 1);
      meter.see_part(1);
      problem.add(window, batch - 1);
      auto gradient = window.close();
      average.add(meter.read(meter.sums(), *gradient)->total);
    }
    const auto scale = average.scale();
    ASSERT_TRUE(scale && scale->value && scale->high);
    EXPECT_NEAR(*scale->value / Quadratic::truth(), 1, 0.1) << batch;
    EXPECT_NEAR(scale->variance, Quadratic::kSpread * Quadratic::kSpread * Quadratic::kElements,
                0.05 * scale->variance);
  }
}

TEST(NoiseMeter, NamesTheBlockOfAParameter) {
  EXPECT_EQ(block_of_parameter("transformer.h.3.attn.c_attn.weight"), "transformer.h.3");
  EXPECT_EQ(block_of_parameter("model.layers.11.mlp.up_proj.weight"), "model.layers.11");
  EXPECT_EQ(block_of_parameter("model.embed_tokens.weight"), "model.embed_tokens");
  EXPECT_EQ(block_of_parameter("wte"), "wte");
}

}  // namespace
}  // namespace accrue::train
