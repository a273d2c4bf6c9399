#include "accrue/models/checkpoint.h"

#include <ATen/autocast_mode.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "accrue/accum/window.h"
#include "support.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using accrue::testing::close;
using models::testing::message_of;
using ::testing::HasSubstr;

/// Terms of the longest chain of sums in a gradient: rows, three products of width 6, three
/// micro-batches.
constexpr std::int64_t chain_terms = 5 * 3 * 6 * 3;

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator, at::TensorOptions());
}

torch::nn::Sequential block() {
  torch::nn::Sequential net(torch::nn::Linear(6, 6), torch::nn::Dropout(0.5),
                            torch::nn::Linear(6, 6), torch::nn::Dropout(0.5));
  const at::NoGradGuard no_grad;
  std::uint64_t seed = 0;
  for (at::Tensor& parameter : net->parameters())
    parameter.copy_(random(parameter.sizes(), ++seed));
  return net;
}

/// A Sequential's result type is not fixed, so it is called by a lambda.
auto forward_of(torch::nn::Sequential net) {
  return [net](const at::Tensor& x) { return net.ptr()->forward(x); };
}

std::vector<at::Tensor> gradients_of(const torch::nn::Sequential& net) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : net->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

void expect_same_bits(const std::vector<at::Tensor>& actual,
                      const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
}

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(
      a, b, [](const at::Tensor& x, const at::Tensor& y) { return at::equal(x, y); });
}

enum class How { plain, checkpointed, nested, without_random_state };

/// Applies the block twice, so that each weight is used twice: gradients of x and the parameters.
std::vector<at::Tensor> gradients(How how, bool input_wants_gradient = true) {
  torch::nn::Sequential net = block();
  const at::Tensor x = random({5, 6}, 50).requires_grad_(input_wants_gradient);
  const auto twice = [&](const auto& once) { return once(once(x)); };
  at::manual_seed(9);
  at::Tensor y;
  switch (how) {
    case How::plain:
      y = twice([&](const at::Tensor& in) { return net->forward(in); });
      break;
    case How::nested: {
      const auto inner = [net](const at::Tensor& in) {
        return checkpoint(forward_of(net), in) + in;
      };
      y = twice([&](const at::Tensor& in) { return checkpoint(inner, in) - in; });
      break;
    }
    default:
      y = twice([&](const at::Tensor& in) { return checkpoint(forward_of(net), in); });
  }
  const at::Tensor after_forward = at::rand({3});
  at::manual_seed(10);
  if (how == How::without_random_state) {
    // A checkpoint without the generator's state would have other masks than the loss had.
    y = net->forward(net->forward(x));
  }
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  y.square().sum().backward();
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), before));
  std::vector<at::Tensor> result = gradients_of(net);
  if (input_wants_gradient) result.push_back(x.grad());
  result.push_back(after_forward);
  return result;
}

TEST(Checkpoint, DoesNotChangeABit) {
  expect_same_bits(gradients(How::checkpointed), gradients(How::plain));
  expect_same_bits(gradients(How::checkpointed, false), gradients(How::plain, false));
}

TEST(Checkpoint, WouldDifferWithOtherDropoutMasks) {
  EXPECT_FALSE(same(gradients(How::without_random_state), gradients(How::plain)));
}

/// A mask and a parameter have no history inside the segment.
TEST(Checkpoint, LeavesCapturedTensorsThatAreResultsAsTheyAre) {
  const at::Tensor mask = at::tensor({1.F, 0.F, 1.F}), weight = random({3}, 1).requires_grad_(true),
                   x = random({3}, 2).requires_grad_(true);
  const CheckpointedFunction fn = [=](const std::vector<at::Tensor>& in) {
    return std::vector{in[0] * weight, mask, weight, in[0]};
  };
  const std::vector<at::Tensor> results = checkpoint(fn, {x});
  EXPECT_FALSE(mask.requires_grad());
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_TRUE(x.is_leaf());
  (results[0] * results[1] + 3 * results[2] + 5 * results[3]).sum().backward();
  EXPECT_TRUE(at::equal(weight.grad(), x.detach() * mask + 3));
  EXPECT_TRUE(at::equal(x.grad(), weight.detach() * mask + 5));
}

TEST(Checkpoint, MayBeNested) {
  const std::vector<at::Tensor> nested = gradients(How::nested);
  torch::nn::Sequential net = block();
  const at::Tensor x = random({5, 6}, 50).requires_grad_(true);
  at::manual_seed(9);
  const auto once = [&](const at::Tensor& in) { return net->forward(in) + in - in; };
  once(once(x)).square().sum().backward();
  const std::vector<at::Tensor> expected = gradients_of(net);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(close(nested[i], expected[i], at::kFloat, chain_terms)) << i;
}

/// A parameter used twice inside and once outside, in a window's slots.
TEST(Checkpoint, FillsOpenSlotsOfWeightsUsedSeveralTimes) {
  const auto sums = [](bool checkpointed, accum::Accumulation accumulation) {
    torch::nn::Sequential net = block();
    NamedParameters parameters;
    for (const auto& parameter : net->named_parameters())
      parameters.push_back({parameter.key(), parameter.value()});
    accum::Window window(std::make_shared<accum::GradientBuffer>(parameters, accumulation));
    window.open(0);
    at::manual_seed(9);
    for (std::int64_t micro = 0; micro < 3; ++micro) {
      window.begin({.index = micro});
      const at::Tensor x = random({4, 6}, static_cast<std::uint64_t>(60 + micro));
      const auto twice = [once = forward_of(net)](const at::Tensor& in) { return once(once(in)); };
      const at::Tensor inside = checkpointed ? checkpoint(twice, x) : twice(x);
      const at::Tensor loss = net->forward(inside).square().sum();
      loss.backward();
      window.commit(loss.item<double>(), 1);
    }
    std::vector<at::Tensor> sum;
    for (const auto& entry : window.buffer()->entries())
      sum.push_back(source_of(entry).scaled_copy(1, entry.parameter));
    window.discard();
    return sum;
  };
  for (const auto accumulation : {accum::Accumulation::fp32, accum::Accumulation::fp64}) {
    const std::vector<at::Tensor> expected = sums(false, accumulation);
    const std::vector<at::Tensor> actual = sums(true, accumulation);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(close(actual[i], expected[i], at::kFloat, chain_terms)) << i;
      EXPECT_FALSE(close(actual[i] * 1.01, expected[i], at::kFloat, chain_terms)) << i;
    }
  }
}

TEST(Checkpoint, TakesAndGivesSeveralTensors) {
  const auto parts = [](const at::Tensor& x, const at::Tensor& index, const at::Tensor& y) {
    return std::vector<at::Tensor>{x * y, index + 1, x.index_select(0, index).sin()};
  };
  const auto run = [&](bool checkpointed, bool use_both) {
    const at::Tensor x = random({4, 3}, 1).requires_grad_(true), y = random({4, 3}, 2);
    const at::Tensor index = at::tensor({2, 0}, at::kLong);
    const std::vector<at::Tensor> z =
        checkpointed ? checkpoint(parts, x, index, y) : parts(x, index, y);
    EXPECT_FALSE(z[1].requires_grad());
    (use_both ? z[0].sum() + z[2].sum() : z[2].sum()).backward();
    EXPECT_FALSE(y.grad().defined());
    return std::vector<at::Tensor>{x.grad(), z[0], z[1], z[2]};
  };
  expect_same_bits(run(true, true), run(false, true));
  expect_same_bits(run(true, false), run(false, false));
}

/// Backward runs outside of the user's autocast, whose casts are kept for one run only.
TEST(Checkpoint, RunsAgainUnderTheSameAutocast) {
  const auto run = [](bool checkpointed) {
    torch::nn::Sequential net = block();
    const at::Tensor x = random({5, 6}, 50).requires_grad_(true);
    at::manual_seed(9);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor inside = checkpointed ? checkpoint(forward_of(net), x) : net->forward(x);
    const at::Tensor y = net->forward(inside);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    y.to(at::kFloat).square().sum().backward();
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
    return std::vector<at::Tensor>{x.grad(), net->parameters()[0].grad()};
  };
  const std::vector<at::Tensor> actual = run(true), expected = run(false);
  EXPECT_TRUE(at::equal(actual[0], expected[0]));
  // The weight is used twice: one cast's gradient in bf16 there, two casts' in fp32 here.
  EXPECT_TRUE(close(actual[1], expected[1], at::kBFloat16, chain_terms));
  EXPECT_FALSE(close(actual[1] * 1.5, expected[1], at::kBFloat16, 1));
}

TEST(Checkpoint, KeepsItsInputsOnly) {
  c10::weak_intrusive_ptr<c10::StorageImpl> inside{c10::intrusive_ptr<c10::StorageImpl>()};
  const auto fn = [&inside](const at::Tensor& x) {
    const at::Tensor made = x.exp();
    inside = made.storage().getWeakStorageImpl();
    return made.exp();
  };
  const at::Tensor x = random({3}, 1).requires_grad_(true);
  const at::Tensor y = checkpoint(fn, x);
  EXPECT_TRUE(inside.expired());
  const at::Tensor kept = fn(x);
  EXPECT_FALSE(inside.expired());
}

TEST(Checkpoint, IsThePlainFunctionWithoutAGraph) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = random({3}, 1);
  const at::Tensor y = checkpoint([](const at::Tensor& in) { return in * 2; }, x);
  EXPECT_TRUE(at::equal(y, x * 2));
  EXPECT_FALSE(y.requires_grad());
}

TEST(Checkpoint, RefusesWhatItCannotDo) {
  const at::Tensor x = random({3}, 1).requires_grad_(true);
  const auto square = [](const at::Tensor& in) { return in * in; };
  EXPECT_THAT(message_of([&] {
                checkpoint(square, x).sum().backward({}, /*retain_graph=*/true,
                                                     /*create_graph=*/true);
              }),
              HasSubstr("create_graph"));
  EXPECT_THAT(message_of([&] { torch::autograd::grad({checkpoint(square, x).sum()}, {x}); }),
              HasSubstr("torch::autograd::grad"));
  EXPECT_THAT(message_of([&] {
                checkpoint([](const at::Tensor& in) { return in.add_(1); }, random({3}, 1));
              }),
              HasSubstr("wrote to input 0"));
  EXPECT_THAT(message_of([&] { checkpoint(square, at::Tensor()); }), HasSubstr("undefined"));
  std::int64_t runs = 0;
  const auto changing = [&runs](const at::Tensor& in) {
    return ++runs == 1 ? in * 2 : at::cat({in, in});
  };
  const at::Tensor y = checkpoint(changing, x);
  EXPECT_THAT(message_of([&] { y.sum().backward(); }, 1), HasSubstr("second run like the first"));
}

}  // namespace
}  // namespace accrue
