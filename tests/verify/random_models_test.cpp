// No false alarm for correct models, over many random networks and splits.
#include <gtest/gtest.h>

#include "accrue/verify/verify.h"
#include "random_network.h"

namespace accrue {
namespace {

using namespace accrue::testing;

class RandomModels : public RandomNetworks {};

TEST_F(RandomModels, NoFalseAlarmOverTwoHundredModelsAndSplits) {
  std::mt19937 random(2024);
  torch::manual_seed(2024);
  double nearest = 0;
  for (int i = 0; i < 200; ++i) {
    RandomNetwork model(random, random_traits(random));
    const std::int64_t samples = std::uniform_int_distribution<std::int64_t>(2, 24)(random);
    std::uniform_int_distribution<std::int64_t> size(1, samples);
    const double magnitude = i % 3 == 0 ? std::pow(10.0, i % 61 - 30) : 1;
    const auto loss = [=](RandomNetwork& m, const Batch& micro) {
      const Loss one = sound_loss(m, micro);
      return Loss{one.sum * magnitude, one.weight};
    };
    const proof::Report report = verify(
        model, random_batch(samples), loss,
        {.micro_batches = {size(random), size(random)}, .seed = static_cast<std::uint64_t>(i)});
    ASSERT_TRUE(report.equal) << "model " << i << ": " << conclusion(report)
                              << ::testing::PrintToString(report.evidence);
    for (const auto& split : report.splits)
      nearest = std::max(nearest, split.relative_error / split.bound);
  }
  RecordProperty("nearest_to_the_bound", std::to_string(nearest));
  EXPECT_GT(nearest, 0.005) << "a bound that nothing comes near says nothing";
}

/// A ReLU network in which a value of every sample is at the kink except for rounding.
torch::nn::Sequential at_its_kinks(const torch::Tensor& inputs) {
  const std::int64_t units = inputs.size(0);
  torch::nn::Linear first(inputs.size(1), units);
  const torch::NoGradGuard no_grad;
  first->bias.sub_(first->forward(inputs).diagonal());
  return torch::nn::Sequential(first, torch::nn::ReLU(), torch::nn::Linear(units, 1));
}

TEST_F(RandomModels, AKinkThatRoundingDecidesIsNoFaultAndHidesNone) {
  torch::manual_seed(11);
  constexpr std::int64_t samples = 12, features = 200;
  int decided = 0;
  for (int i = 0; i < 30; ++i) {
    const Batch batch = regression_batch(samples, features);
    torch::nn::Sequential model = at_its_kinks(batch[0]);
    const proof::Report report = verify(model, batch, squared_error, {.noise_draws = 1});
    EXPECT_TRUE(report.equal) << conclusion(report) << ::testing::PrintToString(report.evidence);
    EXPECT_TRUE(report.conclusive);
    decided += report.max_relative_error > 1e-4;
    const auto off = [](torch::nn::Sequential& m, const Batch& micro) {
      const Loss loss = squared_error(m, micro);
      return Loss{micro[0].size(0) < 5 ? loss.sum * 1.001 : loss.sum, loss.weight};
    };
    EXPECT_FALSE(verify(model, batch, off, {.noise_draws = 1}).equal) << i;
  }
  EXPECT_GT(decided, 5) << "rounding decided nothing";
}

}  // namespace
}  // namespace accrue
