#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "accum/accelerated_cases.h"

namespace accrue::accelerated {
namespace {

using testing::relative_error;

TEST(Accelerate, LeavesEvaluationToLibtorchToTheBit) {
  for (const Case& c : all_cases()) {
    c.model->to(at::kFloat);
    const at::NoGradGuard evaluation;
    const at::Tensor x = input_of(c, at::kFloat, 3), expected = c.forward(x);
    const Accelerated accelerated = accelerate(c.model);
    EXPECT_TRUE(at::equal(c.forward(x), expected)) << c.name;
    EXPECT_EQ(count_all(accelerated.calls()), 0) << c.name;
  }
}

TEST(Accelerate, LeavesFrozenWeightsAndOtherModelsToLibtorch) {
  nn::Linear frozen(5, 7), other(5, 7);
  frozen->weight.requires_grad_(false);
  const Accelerated accelerated = accelerate(frozen);
  const at::Tensor x = at::randn({6, 5}).requires_grad_(true);
  EXPECT_TRUE(frozen->forward(x).requires_grad());
  EXPECT_TRUE(other->forward(x).requires_grad());
  EXPECT_EQ(count_all(accelerated.calls()), 0);
  frozen->weight.requires_grad_(true);
  frozen->forward(x);
  EXPECT_EQ(count_all(accelerated.calls()), 1);
}

TEST(Accelerate, EndsWithItsScopeAndStaysOnItsThread) {
  nn::Linear model(5, 7), inner(5, 7);
  const at::Tensor x = at::randn({6, 5});
  const Accelerated outside = accelerate(model);
  {
    const Accelerated inside = accelerate(inner);
    model->forward(x);
    inner->forward(x);
    EXPECT_EQ(count_all(inside.calls()), 1);
  }
  EXPECT_EQ(count_all(outside.calls()), 1);
  inner->forward(x);
  std::thread([&] { model->forward(x); }).join();
  EXPECT_EQ(count_all(outside.calls()), 1);
  model->forward(x);
  EXPECT_EQ(count_all(outside.calls()), 2);
}

/// A data thread that collects garbage, or a notebook's server, may end another thread's scope.
TEST(Accelerate, MayBeDestroyedOnAnotherThread) {
  nn::Linear model(5, 7), inner(5, 7);
  const at::Tensor x = at::randn({6, 5});
  const auto is_included = [] {
    return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::AutocastPrivateUse1);
  };
  const auto destroyed_elsewhere = [](std::unique_ptr<Accelerated>& accelerated) {
    std::thread([&] { accelerated.reset(); }).join();
  };
  const auto accelerated = [](const nn::Linear& of) {
    return std::make_unique<Accelerated>(detail::named_parameters_of(of));
  };

  std::unique_ptr<Accelerated> outside = accelerated(model), inside = accelerated(inner);
  destroyed_elsewhere(inside);
  inner->forward(x).sum().backward();
  model->forward(x).sum().backward();
  EXPECT_EQ(count_all(outside->calls()), 1) << "that of the model whose scope is left";
  EXPECT_TRUE(is_included());
  const at::Tensor late = model->forward(x);
  destroyed_elsewhere(outside);
  late.sum().backward();
  EXPECT_TRUE(relative_error(model->weight.grad(), 2 * x.sum(0).expand({7, 5})) < 1e-6);
  model->forward(x);
  EXPECT_FALSE(is_included()) << "the last scope of this thread is gone";

  outside = accelerated(model);
  model->forward(x);
  EXPECT_EQ(count_all(outside->calls()), 1) << "it may begin again";
}

/// No operation finds its data gone, whenever the other thread ends the scope.
TEST(Accelerate, MayBeDestroyedWhileItsThreadComputes) {
  nn::Linear model(5, 7);
  const at::Tensor x = at::randn({6, 5});
  for (int round = 0; round < 200; ++round) {
    auto accelerated = std::make_unique<Accelerated>(detail::named_parameters_of(model));
    std::thread other([&] { accelerated.reset(); });
    for (int i = 0; i < 10; ++i) at::gelu(model->forward(x), "tanh").sum().backward();
    other.join();
  }
}

/// libtorch rounds operands; their products are added to the sum in fp32.
TEST(Accelerate, AddsProductsOfAutocastOperandsUnrounded) {
  nn::Linear model(5, 7);
  const at::Tensor x = at::randn({6, 5}), factors = at::randn({6, 7}).to(at::kBFloat16);
  const auto gradient = [&](bool accelerated) {
    std::optional<Accelerated> scope;
    if (accelerated) scope.emplace(detail::named_parameters_of(model));
    Accumulator acc(model);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor y = model->forward(x);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    acc.backward(Loss{(y * factors).to(at::kFloat).sum(), 1});
    EXPECT_EQ(scope ? scope->calls().products : 1, 1);
    at::Tensor sum = model->weight.grad().clone();
    acc.discard();
    return sum;
  };
  const at::Tensor expected = factors.to(at::kDouble).t().mm(x.to(at::kBFloat16).to(at::kDouble));
  EXPECT_LT(relative_error(gradient(true), expected), 1e-6);
  const double of_libtorch = relative_error(gradient(false), expected);
  EXPECT_GT(of_libtorch, 1e-4);
  EXPECT_LT(of_libtorch, 0x1p-7);
}

TEST(Accelerate, ShowsGradientsToHooks) {
  nn::Linear model(5, 7);
  model->to(at::kDouble);
  const at::Tensor x = at::randn({6, 5}, at::kDouble);
  const auto sums = [&] {
    Accumulator acc(model);
    acc.backward(Loss{uneven_loss(model->forward(x)), 1});
    const Tensors result = detached({model->weight.grad(), model->bias.grad()});
    acc.discard();
    return result;
  };
  const Tensors plain = sums();
  model->weight.register_hook([](const at::Tensor& gradient) { return 3 * gradient; });
  const Accelerated accelerated = accelerate(model);
  expect_close(sums(), {3 * plain[0], plain[1]}, 1e-12, "a hook of a parameter");

  const auto by_transpose = [&] {
    Accumulator acc(model);
    const at::Tensor transposed = model->weight.t();
    transposed.register_hook([](const at::Tensor& gradient) { return 2 * gradient; });
    acc.backward(Loss{uneven_loss(at::addmm(model->bias, x, transposed)), 1});
    const at::Tensor sum = model->weight.grad().clone();
    acc.discard();
    return sum;
  };
  EXPECT_LT(relative_error(by_transpose(), 6 * plain[0]), 1e-12);
}

/// y = x, whose backward pass requests another gradient from autograd, which belongs to no sum.
struct AsksInBackward : torch::autograd::Function<AsksInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            nn::Linear model) {
    context->saved_data["weight"] = model->weight;
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& grads) {
    const at::AutoGradMode on(true);
    const at::Tensor weight = context->saved_data["weight"].toTensor();
    const at::Tensor y = F::linear(at::ones({2, weight.size(1)}, weight.options()), weight);
    const at::Tensor asked = torch::autograd::grad({y.sum()}, {weight})[0];
    return {grads[0] * asked.mean(), {}};
  }
};

TEST(Accelerate, LeavesSumsAloneWhereABackwardPassAsksForGradients) {
  nn::Linear model(5, 7);
  model->to(at::kDouble);
  const at::Tensor x = at::randn({6, 5}, at::kDouble);
  const auto sums = [&] {
    Accumulator acc(model);
    acc.backward(Loss{uneven_loss(AsksInBackward::apply(model->forward(x), model)), 1});
    const Tensors result = detached({model->weight.grad(), model->bias.grad()});
    acc.discard();
    return result;
  };
  const Tensors expected = sums();
  const Accelerated accelerated = accelerate(model);
  expect_close(sums(), expected, 1e-12, "a gradient asked for in a backward pass");
}

TEST(Accelerate, TellsAnInputThatWasChangedInPlace) {
  nn::Linear model(5, 7);
  const Accelerated accelerated = accelerate(model);
  const at::Tensor x = at::randn({6, 5});
  const at::Tensor y = model->forward(x);
  x.add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

/// A program's object that is destroyed at its exit, after those of its main thread.
struct UntilExit {
  ~UntilExit() {
    const at::Tensor x = at::randn({6, 5});
    model->forward(x);
    const bool is_plain = count_all(accelerated->calls()) == 1;
    accelerated.reset();
    const Accelerated late = accelerate(model);
    model->forward(x);
    if (!is_plain || count_all(late.calls()) != 0) std::_Exit(1);
  }
  nn::Linear model{5, 7};
  std::optional<Accelerated> accelerated;
};

TEST(AccelerateDeathTest, MayLiveUntilTheProgramExits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit_with_a_scope = [] {
    static UntilExit until_exit;
    until_exit.accelerated.emplace(detail::named_parameters_of(until_exit.model));
    until_exit.model->forward(at::randn({6, 5}));
    const std::int64_t calls = count_all(until_exit.accelerated->calls());
    std::exit(calls == 1 ? 0 : 2);
  };
  EXPECT_EXIT(exit_with_a_scope(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace accrue::accelerated
