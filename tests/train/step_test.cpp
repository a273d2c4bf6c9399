#include "accrue/train/step.h"

#include <torch/torch.h>

#include "accrue/core/error.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

struct Regression {
  Regression() {
    torch::manual_seed(1);
    model =
        torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
    model->to(torch::kDouble);
    inputs = torch::randn({13, 4}, torch::kDouble);
    targets = torch::randn({13, 1}, torch::kDouble);
    // Rows count unequally, as sequences of unequal length do.
    weights = torch::randint(0, 5, {13, 1}).to(torch::kDouble);
  }
  std::vector<torch::Tensor> batch() const { return {inputs, targets, weights}; }
  torch::nn::Sequential model{nullptr};
  torch::Tensor inputs, targets, weights;
};

Loss weighted_error(torch::nn::Sequential& model, const std::vector<torch::Tensor>& micro) {
  const torch::Tensor error = (model->forward(micro[0]) - micro[1]).square() * micro[2];
  return {error.sum(), micro[2].sum().item<double>()};
}

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
    // clip_grad_norm_ adds 1e-6 to the norm it divides by, so the steps differ by about that much.
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

TEST(Step, RefusesAnEmptyBatch) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  const std::vector<torch::Tensor> empty{torch::empty({0, 4}, torch::kDouble),
                                         torch::empty({0, 1}, torch::kDouble),
                                         torch::empty({0, 1}, torch::kDouble)};
  EXPECT_THROW(step(r.model, optimizer, empty, weighted_error), Error);
}

}  // namespace
}  // namespace accrue
