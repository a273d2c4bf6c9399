#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "accum/accelerated_cases.h"

namespace accrue::accelerated {
namespace {

using testing::relative_error;

/// Dropout of every kind that has keyed masks.
struct DroppingImpl : nn::Module {
  DroppingImpl() {
    first = register_module("first", nn::Linear(4, 8));
    second = register_module("second", nn::Linear(8, 8));
  }
  at::Tensor forward(at::Tensor x) {  // [B, T, 4]
    x = at::dropout(first->forward(x), 0.3, is_training());
    x = at::feature_dropout(x, 0.3, is_training());
    const at::Tensor heads = heads_of(x, 2);
    x = at::scaled_dot_product_attention(heads, heads, heads, {}, is_training() ? 0.3 : 0.0, true)
            .transpose(1, 2)
            .flatten(0, 1);                                           // [B * T, 2, 4]
    x = at::dropout(x.flatten(1), 0.3, is_training());                // equal shares of the first
    x = second->forward(x).view({-1, 9, 8}).transpose(0, 1).clone();  // [T, B, 8]
    at::dropout_(x, 0.3, is_training());
    return x.transpose(0, 1);
  }
  nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Dropping);

/// The sums of a window of 7 samples, in micro-batches of at most `micro`.
Tensors sums_of_split(Dropping& model, Accelerated& accelerated, std::int64_t micro,
                      bool with_ids) {
  torch::manual_seed(8);
  const at::Tensor x = at::randn({7, 9, 4}, at::kDouble);
  Accumulator acc(model);
  for (std::int64_t begin = 0; begin < 7; begin += micro) {
    const at::Tensor slice = x.slice(0, begin, begin + micro);
    std::vector<std::int64_t> ids;
    for (std::int64_t row = 0; row < slice.size(0); ++row) ids.push_back(begin + row);
    if (with_ids) accelerated.begin(ids);
    acc.backward(Loss{model->forward(slice).square().sum(), 1});
  }
  Tensors sums;
  for (const at::Tensor& parameter : model->parameters()) sums.push_back(parameter.grad());
  sums = detached(sums);
  acc.discard();
  return sums;
}

TEST(Accelerate, DropsTheSameWhateverTheSplit) {
  Dropping model;
  model->to(at::kDouble);
  Accelerated accelerated = accelerate(model, {.seed = 5});
  const Tensors whole = sums_of_split(model, accelerated, 7, true);
  for (const std::int64_t micro : {1, 2, 4, 6})
    expect_close(sums_of_split(model, accelerated, micro, true), whole, 1e-12,
                 "micro-batches of " + std::to_string(micro));
  EXPECT_EQ(accelerated.calls().dropouts % 4, 0);
  EXPECT_GT(accelerated.calls().attentions, 0);
  accelerated.begin({});
  const Tensors drawn = sums_of_split(model, accelerated, 7, false);
  EXPECT_GT(relative_error(sums_of_split(model, accelerated, 4, false)[0], drawn[0]), 1e-3);
  Accelerated other = accelerate(model, {.seed = 6});
  EXPECT_GT(relative_error(sums_of_split(model, other, 7, true)[0], whole[0]), 1e-3);
}

TEST(Accelerate, KeepsTheShareThatDropoutStates) {
  nn::Linear model(2, 2);
  Accelerated accelerated = accelerate(model, {.seed = 1});
  std::vector<std::int64_t> ids(100);
  std::iota(ids.begin(), ids.end(), 0);
  for (const std::int64_t window : {0, 1}) {
    accelerated.begin(ids, window);
    const at::Tensor y = at::dropout(at::ones({100, 40, 50}), 0.25, true);
    const double kept = y.ne(0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(kept, 0.75, 5 * std::sqrt(0.25 * 0.75 / 200'000));
    EXPECT_FLOAT_EQ(y.max().item<float>(), 1 / 0.75F);
    const at::Tensor again = at::dropout(at::ones({100, 40, 50}), 0.25, true);
    EXPECT_FALSE(at::equal(again, y));  // another position in the same pass
    accelerated.begin(ids, window);
    EXPECT_TRUE(at::equal(at::dropout(at::ones({100, 40, 50}), 0.25, true), y));
  }
}

TEST(Accelerate, TakesItsSeedFromLibtorchsGenerator) {
  nn::Linear model(2, 2);
  const auto drawn = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    Accelerated accelerated = accelerate(model);
    accelerated.begin({0, 1});
    return at::dropout(at::ones({2, 64}), 0.5, true);
  };
  EXPECT_TRUE(at::equal(drawn(1), drawn(1)));
  EXPECT_FALSE(at::equal(drawn(1), drawn(2)));
}

}  // namespace
}  // namespace accrue::accelerated
