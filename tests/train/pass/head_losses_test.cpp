#include "train/pass/head_losses.h"

#include <gmock/gmock.h>

#include "accrue/accum/window.h"
#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/models/class_loss.h"
#include "accrue/models/gpt2.h"
#include "memory/thread_meter.h"
#include "support/tolerance.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t head_samples = 3, context_length = 8, vocabulary = 20;

batch::MicroBatch random_batch(std::int64_t vocab = vocabulary) {
  at::manual_seed(5);
  batch::MicroBatch micro;
  micro.inputs = at::randint(vocab, {head_samples, context_length}, at::kLong);
  micro.targets = at::randint(vocab, {head_samples, context_length}, at::kLong);
  for (std::int64_t i = 0; i < head_samples; ++i) micro.sample_ids.push_back(100 + i);
  micro.tokens = head_samples * context_length;
  return micro;
}

models::Gpt2Options small(models::LossOptions loss, bool fused) {
  return {.layers = 1,
          .heads = 2,
          .width = 16,
          .context = context_length,
          .vocab = vocabulary,
          .loss = loss,
          .fused_loss = fused,
          .compute = models::Compute::fp64};
}

struct HeadOutcome {
  PassResult pass;
  at::Tensor gradient;
};

HeadOutcome run(models::Trainable& model, const PassOptions& options = {}) {
  const batch::MicroBatch micro = random_batch();
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters()));
  window.open(0, options.loss_scale);
  window.begin({.sample_ids = micro.sample_ids});
  HeadOutcome result{
      .pass = forward_backward(model, micro, batch::training_context(micro, 0, 0), options)};
  window.commit(result.pass.loss_sum, result.pass.weight);
  auto mean = window.close();
  mean->materialize();
  result.gradient = mean->buffer().flat().at(0).clone();
  return result;
}

/// One loss by gpt2's own kernel, which may or may not receive its gradient's scale.
struct OwnHead : models::Gpt2 {
  using Gpt2::Gpt2;
  std::vector<models::LossHead> losses() override {
    models::LossHead head = Gpt2::losses().front();
    if (!listens)
      head.forward = [forward = head.forward](const auto& output, const auto& micro,
                                              const auto& context, double) {
        return forward(output, micro, context, 1);
      };
    head.coefficient = 0.3;
    return {head};
  }
  bool listens = true;
};

TEST(HeadLosses, AScaleThatAKernelDidNotHearOfIsRefusedAndNotLost) {
  OwnHead model(small({}, true));
  const HeadOutcome expected = run(model);
  model.listens = false;
  EXPECT_THROW(run(model), Error);
  OwnHead plain(small({}, false));
  plain.listens = false;
  EXPECT_LE(accrue::testing::relative_error(run(plain).gradient, expected.gradient), 1e-12);
}

TEST(HeadLosses, AScaleTakesNoMoreMemory) {
  models::Gpt2Options options = small({}, true);
  options.vocab = 3000;
  const auto peak = [&](double factor) {
    models::Gpt2 model(options);
    const batch::MicroBatch micro = random_batch(options.vocab);
    accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters()));
    window.open(0);
    window.begin({.sample_ids = micro.sample_ids});
    const memory::ThreadMeter meter;
    const PassResult pass =
        forward_backward(model, micro, batch::training_context(micro, 0, 0), {.factors = {factor}});
    window.commit(pass.loss_sum, pass.weight);
    return meter.peak();
  };
  // Less than a scalar's bookkeeping; the head's weight takes 384 kB.
  EXPECT_NEAR(static_cast<double>(peak(0.3)), static_cast<double>(peak(1)), 1000);
}

/// Three copies of the same loss, which may overwrite its input with its gradient.
struct ManyReaders : models::Gpt2 {
  using Gpt2::Gpt2;
  std::vector<models::LossHead> losses() override {
    models::LossHead head = Gpt2::losses().front();
    head.forward = [this, forward = head.forward](const auto& output, const auto& micro,
                                                  ForwardContext context, double scale) {
      told.push_back(context.last_reader);
      context.last_reader = context.last_reader || all_are_last;
      return forward(output, micro, context, scale);
    };
    return std::vector<models::LossHead>(3, head);
  }
  std::vector<bool> told;
  bool all_are_last = false;
};

TEST(HeadLosses, OnlyOneThatRunsAloneMayOverwriteWhatItReads) {
  models::Gpt2 single(small({}, true));
  const at::Tensor expected = run(single).gradient;
  const PassOptions alone{.factors = {0, 1.5, 0}}, together{.factors = {1, 0.5, 0}};
  ManyReaders model(small({}, true));
  EXPECT_LE(accrue::testing::relative_error(run(model, alone).gradient, expected * 1.5), 1e-12);
  EXPECT_EQ(model.told, (std::vector{true}));
  EXPECT_LE(accrue::testing::relative_error(run(model, together).gradient, expected * 1.5), 1e-12);
  EXPECT_EQ(model.told, (std::vector{true, false, false}));
  model.all_are_last = true;
  EXPECT_THROW(run(model, together), c10::Error);
}

TEST(LossOptions, AreTheSameFusedAndPlain) {
  for (const models::LossOptions& options :
       {models::LossOptions{}, {.label_smoothing = 0.2, .z_loss = 0.01}}) {
    models::Gpt2 fused(small(options, true)), plain(small(options, false));
    const HeadOutcome by_chunks = run(fused), whole = run(plain);
    EXPECT_NEAR(by_chunks.pass.loss_sum, whole.pass.loss_sum, 1e-9);
    EXPECT_LE(accrue::testing::relative_error(by_chunks.gradient, whole.gradient), 1e-12);
  }
}

TEST(LossOptions, AreOfTrainingAndNotOfEvaluation) {
  const batch::MicroBatch micro = random_batch();
  const ForwardContext training = batch::training_context(micro, 0, 0);
  const ForwardContext evaluation = batch::evaluation_context(micro);
  const models::LossOptions options{.label_smoothing = 0.2, .z_loss = 0.01};
  for (const bool fused : {true, false}) {
    models::Gpt2 with(small(options, fused)), without(small({}, fused));
    const auto loss = [&](models::Gpt2& model, const ForwardContext& context) {
      return models::evaluate(model, micro, context).sum.item<double>();
    };
    EXPECT_EQ(loss(with, evaluation), loss(without, evaluation));
    EXPECT_GT(std::abs(loss(with, training) - loss(without, training)), 1);
  }
  batch::MicroBatch images;
  images.targets = at::tensor({1, 3}, at::kLong);
  const at::Tensor logits = at::tensor({1., 2., -1., 3., 0., 0., 2., 1.}).view({2, 4});
  const auto of = [&](const models::LossOptions& wanted, const ForwardContext& context) {
    return models::class_cross_entropy_head(wanted)
        .forward({logits}, images, context, 1)
        .sum.item<double>();
  };
  EXPECT_EQ(of(options, evaluation), of({}, training));
  const at::Tensor smoothed =
      at::cross_entropy_loss(logits, images.targets, {}, at::Reduction::Sum, -100, 0.2);
  EXPECT_NEAR(of({.label_smoothing = 0.2}, training), smoothed.item<double>(), 1e-9);
}

}  // namespace
}  // namespace accrue::train
