#include "accrue/kernels/linear.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "accrue/core/error.h"
#include "kernels/gradients.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace linear_test {

using testing::close;
using ::testing::HasSubstr;
using testing::in_double;
using testing::leaf;
using testing::open_slot;

struct Case {
  at::ScalarType compute, master;
  bool packed = false;
};

/// The parameters of two layers, and the same in double.
struct Layers {
  static constexpr std::int64_t in = 12, hidden = 20, out = 9;

  explicit Layers(at::ScalarType dtype)
      : w1(leaf({hidden, in}, dtype, 1, 0.3)),
        b1(leaf({hidden}, dtype, 2)),
        w2(leaf({out, hidden}, dtype, 3, 0.3)),
        b2(leaf({out}, dtype, 4)) {}
  std::vector<at::Tensor> all() const { return {w1, b1, w2, b2}; }
  Layers doubles() const {
    Layers other(at::kDouble);
    for (const auto& [to, from] :
         {std::pair{&other.w1, w1}, {&other.b1, b1}, {&other.w2, w2}, {&other.b2, b2}})
      *to = in_double(from);
    return other;
  }

  at::Tensor w1, b1, w2, b2;
};

class LinearLayers : public ::testing::TestWithParam<Case> {
 protected:
  LinearLayers() {
    copy1_.pack(GetParam().packed);
    copy2_.pack(GetParam().packed);
  }
  at::ScalarType compute() const { return GetParam().compute; }
  at::ScalarType master() const { return GetParam().master; }
  at::Tensor input(std::int64_t rows, std::uint64_t seed) const {
    return leaf({rows, 2, Layers::in}, compute(), seed);
  }
  at::Tensor upstream(std::int64_t rows, std::uint64_t seed) const {
    return leaf({rows, 2, Layers::out}, compute(), seed).detach();
  }
  at::Tensor mlp(const at::Tensor& x, const Layers& layers) {
    return mlp_gelu(x, layers.w1, layers.b1, copy1_, layers.w2, layers.b2, copy2_);
  }
  static at::Tensor aten_mlp(const at::Tensor& x, const Layers& layers) {
    return at::linear(at::gelu(at::linear(x, layers.w1, layers.b1), "tanh"), layers.w2, layers.b2);
  }
  /// Terms of the longest chain of sums in a gradient.
  static constexpr std::int64_t terms = 64;

  PreparedWeight copy1_, copy2_;
};
INSTANTIATE_TEST_SUITE_P(All, LinearLayers,
                         ::testing::Values(Case{at::kFloat, at::kFloat},
                                           Case{at::kDouble, at::kDouble},
                                           Case{at::kBFloat16, at::kFloat},
                                           Case{at::kFloat, at::kFloat, /*packed=*/true},
                                           Case{at::kDouble, at::kDouble, /*packed=*/true},
                                           Case{at::kBFloat16, at::kFloat, /*packed=*/true}),
                         [](const auto& param) {
                           return std::string(c10::toString(param.param.compute)) +
                                  (param.param.packed ? "Packed" : "");
                         });

TEST_P(LinearLayers, LinearMatchesATenWithAndWithoutBias) {
  for (const bool with_bias : {true, false})
    for (const std::int64_t rows : {1, 7}) {
      const Layers layers(master()), reference = layers.doubles();
      const at::Tensor bias = with_bias ? layers.b1 : at::Tensor();
      const at::Tensor x = input(rows, 5), rx = in_double(x);
      const at::Tensor grad = leaf({rows, 2, Layers::hidden}, compute(), 6).detach();
      const at::Tensor y = linear(x, layers.w1, bias, copy1_);
      ASSERT_EQ(y.scalar_type(), compute());
      y.backward(grad);
      const at::Tensor expected =
          at::linear(rx, reference.w1, with_bias ? reference.b1 : at::Tensor());
      expected.backward(in_double(grad).detach());
      EXPECT_TRUE(close(y, expected, compute(), terms));
      EXPECT_TRUE(close(x.grad(), rx.grad(), compute(), terms));
      EXPECT_TRUE(close(layers.w1.grad(), reference.w1.grad(), master(), terms));
      EXPECT_EQ(layers.w1.grad().scalar_type(), master());
      EXPECT_EQ(layers.b1.grad().defined(), with_bias);
      if (with_bias) {
        EXPECT_TRUE(close(layers.b1.grad(), reference.b1.grad(), master(), terms));
      }
      EXPECT_FALSE(close(layers.w1.grad(), reference.w1.grad() * 1.05, compute(), 1));
    }
}

TEST_P(LinearLayers, MlpMatchesATen) {
  for (const std::int64_t rows : {1, 7}) {
    const Layers layers(master()), reference = layers.doubles();
    const at::Tensor x = input(rows, 5), rx = in_double(x), grad = upstream(rows, 6);
    const at::Tensor y = mlp(x, layers);
    y.backward(grad);
    const at::Tensor expected = aten_mlp(rx, reference);
    expected.backward(in_double(grad).detach());
    EXPECT_TRUE(close(y, expected, compute(), terms));
    EXPECT_TRUE(close(x.grad(), rx.grad(), compute(), terms));
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(close(layers.all()[i].grad(), reference.all()[i].grad(), compute(), terms)) << i;
      EXPECT_FALSE(close(layers.all()[i].grad(), reference.all()[i].grad() * 1.2, compute(), terms))
          << i;
    }
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(mlp(x, layers), y));
  }
}

/// With operands that are already rounded, as close as the sums' precision allows.
TEST_P(LinearLayers, MlpsSecondWeightGetsTheProductOfItsOperands) {
  const Layers layers(master());
  const at::Tensor x = input(7, 5), grad = upstream(7, 6);
  PreparedWeight unit;
  const at::Tensor hidden = mlp_gelu(x, layers.w1, layers.b1, copy1_,
                                     at::eye(Layers::hidden, layers.w1.options()), {}, unit)
                                .detach();
  mlp(x, layers).backward(grad);
  const at::Tensor expected =
      in_double(grad).detach().flatten(0, 1).t().mm(in_double(hidden).detach().flatten(0, 1));
  EXPECT_TRUE(close(layers.w2.grad(), expected, master(), terms));
  EXPECT_FALSE(close(layers.w2.grad(), expected * 1.01, master(), terms));
}

TEST_P(LinearLayers, MlpWorksWithoutBiases) {
  const Layers layers(master()), reference = layers.doubles();
  const at::Tensor x = input(3, 5), rx = in_double(x), grad = upstream(3, 6), none;
  for (const auto& [b1, b2] : {std::pair{false, false}, {true, false}, {false, true}}) {
    for (const at::Tensor& parameter : layers.all()) parameter.mutable_grad().reset();
    for (const at::Tensor& parameter : reference.all()) parameter.mutable_grad().reset();
    mlp_gelu(x, layers.w1, b1 ? layers.b1 : none, copy1_, layers.w2, b2 ? layers.b2 : none, copy2_)
        .backward(grad);
    const at::Tensor hidden = at::linear(rx, reference.w1, b1 ? reference.b1 : none);
    at::linear(at::gelu(hidden, "tanh"), reference.w2, b2 ? reference.b2 : none)
        .backward(in_double(grad).detach());
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_EQ(layers.all()[i].grad().defined(), reference.all()[i].grad().defined());
      if (layers.all()[i].grad().defined()) {
        EXPECT_TRUE(close(layers.all()[i].grad(), reference.all()[i].grad(), compute(), terms))
            << i;
      }
    }
  }
}

/// The gradients of x and the parameters of two layers in a row, with each input kept or made
/// again.
TEST_P(LinearLayers, MakeTheirInputsAgainToTheBit) {
  std::int64_t remade = 0;
  const auto gradients = [&](bool remake) {
    const Layers layers(master());
    const at::Tensor x = input(5, 5);
    const auto remake_of = [&](const at::Tensor& value) {
      return remake ? Remake([&remade, kept = value.detach().clone()] {
        EXPECT_FALSE(at::GradMode::is_enabled());
        ++remade;
        return kept;
      })
                    : Remake();
    };
    const at::Tensor first = linear(x, at::eye(Layers::in, layers.w1.options()), {}, copy1_);
    const at::Tensor y = mlp_gelu(first, layers.w1, layers.b1, copy1_, layers.w2, layers.b2, copy2_,
                                  {.remake_x = remake_of(first)});
    linear(y, layers.w1.narrow(1, 0, Layers::out), layers.b1, copy1_, remake_of(y))
        .backward(leaf({5, 2, Layers::hidden}, compute(), 6).detach());
    std::vector<at::Tensor> all = layers.all();
    all.push_back(x);
    for (at::Tensor& tensor : all) tensor = tensor.grad();
    return all;
  };
  const std::vector<at::Tensor> expected = gradients(false), actual = gradients(true);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
  EXPECT_EQ(remade, 2);
}

/// The backward pass works in the memory that the forward pass kept, unless it is needed
/// again.
TEST_P(LinearLayers, MlpGivesTheSameGradientsAgainWhereTheGraphIsKept) {
  const Layers layers(master());
  const at::Tensor x = input(5, 5), y = mlp(x, layers), grad = upstream(5, 6);
  std::vector<at::Tensor> all = layers.all();
  all.push_back(x);
  const auto kept = torch::autograd::grad({y}, all, {grad}, /*retain_graph=*/true);
  const auto last = torch::autograd::grad({y}, all, {grad}, /*retain_graph=*/false);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(at::equal(last[i], kept[i])) << i;
  // The comparison detects gradients of another upstream gradient.
  const auto other = torch::autograd::grad({mlp(x, layers)}, all, {2 * grad});
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_FALSE(at::equal(other[i], kept[i])) << i;
}

TEST_P(LinearLayers, MlpLeavesOutAResultThatNobodyReads) {
  const auto gradients = [&](bool unread) {
    const Layers layers(master());
    const at::Tensor x = input(5, 5);
    const at::Tensor y = mlp_gelu(x, layers.w1, layers.b1, copy1_, layers.w2, layers.b2, copy2_,
                                  {.result_unread = unread});
    EXPECT_EQ(y.sizes(), at::IntArrayRef({5, 2, Layers::out}));
    EXPECT_EQ(y.scalar_type(), compute());
    EXPECT_EQ(y.storage().nbytes() == static_cast<std::size_t>(y.element_size()), unread);
    y.backward(upstream(5, 6));
    std::vector<at::Tensor> all = layers.all();
    all.push_back(x);
    for (at::Tensor& tensor : all) tensor = tensor.grad();
    return all;
  };
  const std::vector<at::Tensor> expected = gradients(false), actual = gradients(true);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
}

/// Gradients in slots: one micro-batch, and the same rows as two.
TEST_P(LinearLayers, AddUpInSlotsWithoutATemporary) {
  const at::Tensor x = input(8, 5), grad = upstream(8, 6);
  const Layers whole(master()), split(master()), plain(master());
  std::vector<std::shared_ptr<GradSlot>> whole_slots, split_slots;
  for (const at::Tensor& parameter : whole.all()) whole_slots.push_back(open_slot(parameter));
  for (const at::Tensor& parameter : split.all()) split_slots.push_back(open_slot(parameter));

  mlp(x, plain).backward(grad);
  mlp(x, whole).backward(grad);
  for (const std::int64_t begin : {0, 3}) {
    const std::int64_t rows = begin == 0 ? 3 : 5;
    mlp(x.narrow(0, begin, rows), split).backward(grad.narrow(0, begin, rows));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const at::Tensor expected = plain.all()[i].grad();
    EXPECT_TRUE(close(whole_slots[i]->main, expected, master(), terms)) << i;
    EXPECT_TRUE(close(split_slots[i]->main, expected, master(), terms)) << i;
    EXPECT_EQ(whole_slots[i]->contributions, 1);
    EXPECT_EQ(split_slots[i]->contributions, 2);
    // No tensor of the parameter's size went through autograd.
    EXPECT_FALSE(whole.all()[i].grad().defined());
    EXPECT_FALSE(split.all()[i].grad().defined());
  }
}

/// More often than any small count with a special meaning in a kernel.
TEST_P(LinearLayers, AddUpInSlotsHoweverOftenTheyAreUsed) {
  constexpr std::int64_t rows = 40;
  const at::Tensor x = input(rows, 5), grad = upstream(rows, 6);
  const Layers split(master()), plain(master());
  std::vector<std::shared_ptr<GradSlot>> slots;
  for (const at::Tensor& parameter : split.all()) slots.push_back(open_slot(parameter));
  const auto run = [&](const Layers& layers, std::int64_t begin, std::int64_t count) {
    const at::Tensor hidden = linear(x.narrow(0, begin, count), layers.w1, layers.b1, copy1_);
    linear(hidden, layers.w2, layers.b2, copy2_).backward(grad.narrow(0, begin, count));
  };
  run(plain, 0, rows);
  for (std::int64_t row = 0; row < rows; ++row) run(split, row, 1);
  for (std::size_t i = 0; i < 4; ++i) {
    const at::Tensor expected = plain.all()[i].grad();
    EXPECT_TRUE(close(slots[i]->main, expected, master(), 4 * rows)) << i;
    EXPECT_FALSE(close(slots[i]->main, expected * 1.02, master(), 4 * rows)) << i;
    EXPECT_EQ(slots[i]->contributions, rows);
  }
}

TEST_P(LinearLayers, AddsUpInItsSlotWithoutABias) {
  const Layers split(master()), plain(master());
  const auto slot = open_slot(split.w1);
  const at::Tensor x = input(8, 5), grad = leaf({8, 2, Layers::hidden}, compute(), 6).detach();
  linear(x, plain.w1, {}, copy1_).backward(grad);
  for (const std::int64_t begin : {0, 4})
    linear(x.narrow(0, begin, 4), split.w1, {}, copy1_).backward(grad.narrow(0, begin, 4));
  EXPECT_TRUE(close(slot->main, plain.w1.grad(), master(), terms));
  EXPECT_FALSE(close(slot->main, plain.w1.grad() * 1.02, master(), terms));
}

TEST_P(LinearLayers, AnEmptyMicroBatchAddsNothing) {
  const Layers layers(master());
  const auto slot = open_slot(layers.w1);
  linear(input(4, 5), layers.w1, layers.b1, copy1_).sum().backward();
  const at::Tensor before = slot->main.clone();
  linear(input(0, 5), layers.w1, layers.b1, copy1_).sum().backward();
  EXPECT_TRUE(at::equal(slot->main, before));
}

TEST_P(LinearLayers, ComputesOnlyWhatIsWanted) {
  const Layers layers(master());
  const auto w1_slot = open_slot(layers.w1), b2_slot = open_slot(layers.b2);
  layers.w2.requires_grad_(false);
  const at::Tensor x = input(4, 5);
  const auto grads = torch::autograd::grad({mlp(x, layers).sum()}, {x});
  EXPECT_TRUE(grads[0].defined());
  EXPECT_EQ(w1_slot->contributions + b2_slot->contributions, 0);
  mlp(x.detach(), layers).sum().backward();
  EXPECT_EQ(w1_slot->contributions, 1);
  EXPECT_EQ(b2_slot->contributions, 1);
  EXPECT_FALSE(layers.w2.grad().defined());
  EXPECT_FALSE(x.grad().defined());
}

TEST_P(LinearLayers, ReadsStridedInputsAndGradients) {
  const Layers layers(master()), reference = layers.doubles();
  const at::Tensor packed = leaf({3, 5, 3 * Layers::in}, compute(), 5), rpacked = in_double(packed);
  linear(packed.narrow(2, Layers::in, Layers::in), layers.w1, layers.b1, copy1_).sum().backward();
  at::linear(rpacked.narrow(2, Layers::in, Layers::in), reference.w1, reference.b1)
      .sum()
      .backward();
  EXPECT_TRUE(close(packed.grad(), rpacked.grad(), compute(), terms));
  EXPECT_TRUE(close(layers.w1.grad(), reference.w1.grad(), master(), terms));
}

TEST(LinearArguments, AreChecked) {
  const auto message = [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
    PreparedWeight copy;
    try {
      linear(x, w, b, copy);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const at::Tensor x = at::ones({2, 3}), w = at::ones({4, 3}), b = at::ones({4});
  EXPECT_EQ(message(x, w, b), "no error");
  EXPECT_THAT(message(x, w.t(), b), HasSubstr("weight [N, K]"));
  EXPECT_THAT(message(x, w, x), HasSubstr("bias [N]"));
  EXPECT_THAT(message(x.to(at::kDouble), w, b), HasSubstr("in x's dtype"));
  EXPECT_THAT(message(x, w, b.to(at::kDouble)), HasSubstr("in x's dtype"));
  EXPECT_THAT(message(x.to(at::kLong), w, b), HasSubstr("fp32, fp64, bf16 or fp16"));
}

TEST(Linear, RefusesASecondDerivativeInsteadOfGivingAWrongOne) {
  PreparedWeight copy;
  const at::Tensor x = leaf({2, 3}, at::kFloat, 1), w = leaf({4, 3}, at::kFloat, 2);
  const at::Tensor y = linear(x, w, at::Tensor(), copy).square().sum();
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {}, std::nullopt, /*create_graph=*/true), Error);
  EXPECT_NO_THROW(torch::autograd::grad({linear(x, w, at::Tensor(), copy).sum()}, {x}));
}

}  // namespace linear_test
}  // namespace accrue::kernels
