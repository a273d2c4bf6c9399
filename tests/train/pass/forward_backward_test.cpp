#include "train/pass/forward_backward.h"

#include "accrue/accum/window.h"
#include "accrue/core/error.h"
#include "accrue/models/gpt2.h"
#include "support/tolerance.h"

namespace accrue::train {
namespace {

batch::MicroBatch random_batch(std::int64_t samples, std::int64_t context, std::int64_t vocab) {
  at::manual_seed(5);
  batch::MicroBatch micro;
  micro.inputs = at::randint(vocab, {samples, context}, at::kLong);
  micro.targets = at::randint(vocab, {samples, context}, at::kLong);
  for (std::int64_t i = 0; i < samples; ++i) micro.sample_ids.push_back(100 + i);
  micro.tokens = samples * context;
  return micro;
}

models::Gpt2 small_model() {
  return models::Gpt2({.layers = 2,
                       .heads = 2,
                       .width = 16,
                       .context = 8,
                       .vocab = 20,
                       .compute = models::Compute::fp64});
}

TEST(ForwardBackward, CutsBetweenSegmentsDoNotChangeTheGradient) {
  models::Gpt2 model = small_model();
  const batch::MicroBatch micro = random_batch(3, 8, 20);
  const ForwardContext context{.sample_ids = micro.sample_ids};
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters()));
  window.open(0);
  window.begin({.sample_ids = micro.sample_ids});
  const PassResult pass = forward_backward(model, micro, context);
  window.commit(pass.loss_sum, pass.weight);

  // The reference: one uncut graph, its slots detached, so autograd returns every gradient.
  models::Gpt2 same = small_model();
  models::Activations x;
  for (models::Segment& segment : same.segments()) x = segment.forward(x, micro, context);
  const Loss loss = same.losses().at(0).forward(x, micro, context, 1);
  std::vector<at::Tensor> leaves;
  for (const NamedParameter& p : same.parameters()) leaves.push_back(p.tensor);
  const auto expected = torch::autograd::grad({loss.sum}, leaves);
  EXPECT_DOUBLE_EQ(pass.weight, 24);
  EXPECT_NEAR(pass.loss_sum, loss.sum.item<double>(), 1e-12 * loss.sum.item<double>());
  const auto& entries = window.buffer()->entries();
  ASSERT_EQ(entries.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(accrue::testing::close(entries[i].slot->main, expected[i], at::kDouble, 24 * 20))
        << entries[i].name;
}

/// Gpt2 with several copies of its loss.
struct ManyLosses : models::Gpt2 {
  using Gpt2::Gpt2;
  std::vector<models::LossHead> losses() override {
    std::vector<models::LossHead> heads(3, Gpt2::losses().front());
    heads[1].coefficient = 0.5;
    heads[2].name = "broken";
    heads[2].forward = [](const auto&, const auto&, const auto&, double) -> Loss {
      throw std::runtime_error("it was run");
    };
    return heads;
  }
};

TEST(ForwardBackward, MultipliesLossesWithTheirFactorsAndRunsNoneOfFactorZero) {
  const batch::MicroBatch micro = random_batch(3, 8, 20);
  const ForwardContext context = batch::training_context(micro, 0, 0);
  const auto gradient = [&](models::Gpt2& model, const PassOptions& options) {
    accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters()));
    window.open(0, options.loss_scale);
    window.begin({.sample_ids = micro.sample_ids});
    const PassResult pass = forward_backward(model, micro, context, options);
    window.commit(pass.loss_sum, pass.weight);
    auto mean = window.close();
    mean->materialize();
    return std::pair(pass.loss_sum, mean->buffer().flat().at(0).clone());
  };
  models::Gpt2 once = small_model();
  const auto [sum, expected] = gradient(once, {});
  ManyLosses many(once.options());
  for (const double scale : {1.0, 256.0}) {
    const auto [sums, actual] = gradient(many, {.factors = {1, 2.5, 0}, .loss_scale = scale});
    EXPECT_NEAR(sums, 3.5 * sum, 1e-12 * sums);
    EXPECT_LE(accrue::testing::relative_error(actual, expected * 3.5), 1e-12);
  }
  EXPECT_THROW(gradient(many, {.factors = {1, 1}}), Error);
  EXPECT_THROW(gradient(many, {}), std::runtime_error);
}

TEST(ForwardBackward, FindsANonFiniteLoss) {
  models::Gpt2 model = small_model();
  const batch::MicroBatch micro = random_batch(1, 8, 20);
  {
    const at::NoGradGuard no_grad;
    model.parameters().front().tensor.fill_(std::numeric_limits<double>::quiet_NaN());
  }
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters()));
  window.open(0);
  window.begin({.sample_ids = micro.sample_ids});
  EXPECT_FALSE(forward_backward(model, micro, {.sample_ids = micro.sample_ids}).finite);
  window.discard();
}

}  // namespace
}  // namespace accrue::train
