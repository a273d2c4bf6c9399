#include "accrue/train/step.h"

#include <torch/torch.h>

#include <cmath>

#include "support/tolerance.h"
#include "train/regression.h"

namespace accrue {
namespace {

using testing::Regression;
using testing::weighted_error;

std::vector<torch::Tensor> full_batch_step(Regression& r) {
  torch::optim::AdamW optimizer(r.model->parameters(), torch::optim::AdamWOptions(1e-2));
  const Loss loss = weighted_error(r.model, r.batch());
  (loss.sum / loss.weight).backward();
  torch::nn::utils::clip_grad_norm_(r.model->parameters(), 0.1);
  optimizer.step();
  return r.model->parameters();
}

TEST(Step, EqualsTheFullBatchForEverySplitAndForAutomatic) {
  Regression reference;
  const auto expected = full_batch_step(reference);
  for (const std::int64_t micro : {0, 1, 2, 3, 7, 13, 100}) {
    Regression r;
    torch::optim::AdamW optimizer(r.model->parameters(), torch::optim::AdamWOptions(1e-2));
    const StepReport report = step(r.model, optimizer, r.batch(), weighted_error,
                                   {.clip_norm = 0.1, .micro_batch = micro});
    EXPECT_TRUE(report.stepped);
    EXPECT_EQ(report.samples, 13);
    const auto actual = r.model->parameters();
    // clip_grad_norm_ divides by the norm plus 1e-6, so the steps differ by about that much.
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(testing::relative_error(actual[i], expected[i]), 1e-7) << "micro-batch " << micro;
  }
}

TEST(Step, IsToldApartFromTheMeanOfMeans) {
  // Plain SGD: AdamW's first step is nearly the gradient's sign, which hides its size.
  const auto stepped = [](const auto& loss_fn, std::int64_t micro) {
    Regression r;
    torch::optim::SGD optimizer(r.model->parameters(), 0.1);
    step(r.model, optimizer, r.batch(), loss_fn, {.micro_batch = micro});
    return r.model->parameters();
  };
  const auto mean_loss = [](torch::nn::Sequential& m, const std::vector<torch::Tensor>& micro) {
    const Loss loss = weighted_error(m, micro);
    return Loss{loss.sum / loss.weight, 1};
  };
  const auto expected = stepped(weighted_error, 13);
  EXPECT_LT(testing::relative_error(stepped(weighted_error, 5)[0], expected[0]), 1e-14);
  EXPECT_GT(testing::relative_error(stepped(mean_loss, 5)[0], expected[0]), 1e-4);
}

TEST(Step, LeavesOutASliceThatIsNotFiniteAndStepsWithTheOthers) {
  Regression bad, clean;
  for (const bool in_loss : {true, false}) {
    const auto loss_fn = [&](torch::nn::Sequential& m, const std::vector<torch::Tensor>& micro) {
      Loss loss = weighted_error(m, micro);
      if (!at::equal(micro[0][0], bad.inputs[4])) return loss;
      const torch::Tensor bias = m->parameters()[1];
      // 0 and NaN, or 0 and an infinite derivative.
      loss.sum = in_loss ? loss.sum * std::nan("") : loss.sum + at::sqrt(bias - bias).sum();
      return loss;
    };
    torch::optim::SGD bad_optimizer(bad.model->parameters(), 0.1);
    const StepReport report =
        step(bad.model, bad_optimizer, bad.batch(), loss_fn, {.micro_batch = 4});
    EXPECT_TRUE(report.stepped);
    EXPECT_EQ(report.quarantined, 1);

    torch::optim::SGD clean_optimizer(clean.model->parameters(), 0.1);
    std::vector<torch::Tensor> others;
    for (const torch::Tensor& tensor : clean.batch())
      others.push_back(at::cat({tensor.slice(0, 0, 4), tensor.slice(0, 7)}));
    step(clean.model, clean_optimizer, others, weighted_error, {.micro_batch = 4});
    for (std::size_t i = 0; i < clean.model->parameters().size(); ++i)
      EXPECT_TRUE(at::equal(bad.model->parameters()[i], clean.model->parameters()[i]));
  }
}

TEST(Step, CutsPackedBatchesByRowsWithTheSamplesInThem) {
  batch::MicroBatch all{.inputs = at::arange(12).view({3, 4}),
                        .targets = at::arange(12).view({3, 4}),
                        .weights = at::ones({3, 4}),
                        .sample_ids = {7, 8, 9, 10},
                        .tokens = 12,
                        .spans = {{7, 0, 0, 4}, {8, 1, 0, 2}, {9, 1, 2, 4}, {10, 2, 0, 3}}};
  const batch::MicroBatch slice = batch_slice(all, 1, 3);
  EXPECT_EQ(slice.sample_ids, (std::vector<std::int64_t>{8, 9, 10}));
  ASSERT_EQ(slice.spans.size(), 3u);
  EXPECT_EQ(slice.spans[0].row, 0);
  EXPECT_EQ(slice.spans[2].row, 1);
  EXPECT_EQ(slice.weights.size(0), 2);
  EXPECT_EQ(slice.tokens, 8);
}

TEST(Stepper, TakesTheStepsThatSingleCallsTake) {
  Regression one, many;
  torch::optim::AdamW optimizer(one.model->parameters(), torch::optim::AdamWOptions(1e-2));
  torch::optim::AdamW reference(many.model->parameters(), torch::optim::AdamWOptions(1e-2));
  Stepper stepper(one.model, optimizer, {.clip_norm = 0.1, .micro_batch = 5});
  for (int i = 0; i < 3; ++i) {
    const StepReport report = stepper.step(one.batch(), weighted_error);
    EXPECT_EQ(report.samples, 13 * (i + 1));
    step(many.model, reference, many.batch(), weighted_error, {.clip_norm = 0.1, .micro_batch = 5});
  }
  for (std::size_t i = 0; i < one.model->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(one.model->parameters()[i], many.model->parameters()[i]));
}

TEST(Stepper, GoesOnAfterALossThatThrew) {
  Regression r, reference;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  torch::optim::SGD reference_optimizer(reference.model->parameters(), 0.1);
  Stepper stepper(r.model, optimizer, {.micro_batch = 5});
  int calls = 0;
  const auto failing = [&](torch::nn::Sequential& m, const std::vector<torch::Tensor>& micro) {
    if (++calls == 2) throw std::runtime_error("the user's own");
    return weighted_error(m, micro);
  };
  EXPECT_THROW(stepper.step(r.batch(), failing), std::runtime_error);
  stepper.step(r.batch(), failing);
  step(reference.model, reference_optimizer, reference.batch(), weighted_error, {.micro_batch = 5});
  EXPECT_TRUE(at::equal(r.model->parameters()[0], reference.model->parameters()[0]));
}

}  // namespace
}  // namespace accrue
