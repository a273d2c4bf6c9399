// The guarantee that the whole project is based on: the gradient of 64 samples of unequal length is
// the same however they are split into micro-batches.
#include <random>

#include "accrue/accum/window.h"
#include "accrue/models/gpt2.h"
#include "accrue/train/step.h"
#include "support/tolerance.h"
#include "train/pass/forward_backward.h"

namespace accrue::train {
namespace {

constexpr std::int64_t split_samples = 64, split_context = 12, split_vocab = 30;

batch::MicroBatch uneven_batch() {
  at::manual_seed(11);
  batch::MicroBatch all;
  all.inputs = at::randint(split_vocab, {split_samples, split_context}, at::kLong);
  all.targets = at::randint(split_vocab, {split_samples, split_context}, at::kLong);
  for (std::int64_t i = 0; i < split_samples; ++i) {
    all.targets[i].slice(0, 1 + i * i % split_context).fill_(-100);
    all.sample_ids.push_back(1000 + i);
  }
  return all;
}

models::Gpt2 model_of(models::Compute compute) {
  return models::Gpt2({.layers = 2,
                       .heads = 2,
                       .width = 24,
                       .context = split_context,
                       .vocab = split_vocab,
                       .dropout = 0.2,
                       .compute = compute});
}

std::vector<std::vector<std::int64_t>> splits() {
  std::vector<std::vector<std::int64_t>> all;
  for (const std::int64_t size : {64, 32, 16, 4, 1})
    all.emplace_back(static_cast<std::size_t>(split_samples / size), size);
  std::mt19937 random(3);
  for (int i = 0; i < 4; ++i) {
    std::vector<std::int64_t> split;
    for (std::int64_t left = split_samples; left > 0; left -= split.back())
      split.push_back(std::min<std::int64_t>(left, 1 + static_cast<std::int64_t>(random() % 17)));
    all.push_back(split);
  }
  return all;
}

/// The mean gradient of all samples, flat; `mean_of_means` divides each micro-batch by its own
/// weight, as plain loops do.
at::Tensor gradient_of(models::Compute compute, const std::vector<std::int64_t>& split,
                       bool mean_of_means = false) {
  models::Gpt2 model = model_of(compute);
  const batch::MicroBatch all = uneven_batch();
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters()));
  at::Tensor sum;
  std::int64_t begin = 0;
  window.open(7);
  for (std::size_t i = 0; i < split.size(); ++i) {
    const batch::MicroBatch micro = batch_slice(all, begin, begin + split[i]);
    begin += split[i];
    window.begin({.index = static_cast<std::int64_t>(i), .sample_ids = micro.sample_ids});
    const PassResult pass =
        forward_backward(model, micro, {.seed = 1, .window = 7, .sample_ids = micro.sample_ids});
    window.commit(pass.loss_sum, pass.weight);
    if (!mean_of_means) continue;
    auto mean = window.close();
    mean->materialize();
    const at::Tensor part = mean->buffer().flat().at(0) / static_cast<double>(split.size());
    sum = sum.defined() ? sum + part : part.clone();
    window.open(7);
  }
  if (mean_of_means) {
    window.discard();
    return sum;
  }
  auto mean = window.close();
  mean->materialize();
  return mean->buffer().flat().at(0).clone();
}

class SplitTest : public ::testing::TestWithParam<models::Compute> {};

TEST_P(SplitTest, EverySplitGivesTheGradientOfOnePass) {
  const at::ScalarType dtype = GetParam() == models::Compute::fp64 ? at::kDouble : at::kFloat;
  const at::Tensor one_pass = gradient_of(GetParam(), {split_samples});
  for (const std::vector<std::int64_t>& split : splits())
    EXPECT_TRUE(accrue::testing::close(gradient_of(GetParam(), split), one_pass, dtype,
                                       split_samples * split_context))
        << split.size() << " micro-batches";
  if (GetParam() == models::Compute::fp64) {
    EXPECT_LT(accrue::testing::relative_error(gradient_of(GetParam(), splits()[4]), one_pass),
              1e-12);
  }
}

TEST_P(SplitTest, TheMeanOfMeansIsCaught) {
  const at::ScalarType dtype = GetParam() == models::Compute::fp64 ? at::kDouble : at::kFloat;
  const at::Tensor one_pass = gradient_of(GetParam(), {split_samples});
  const at::Tensor wrong = gradient_of(GetParam(), splits()[3], true);
  EXPECT_FALSE(accrue::testing::close(wrong, one_pass, dtype, split_samples * split_context));
}

INSTANTIATE_TEST_SUITE_P(Precisions, SplitTest,
                         ::testing::Values(models::Compute::fp32, models::Compute::fp64));

}  // namespace
}  // namespace accrue::train
