#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>

#include "accrue/core/error.h"
#include "accrue/kernels/linear.h"
#include "kernels/gradients.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace mlp_gated_test {

using testing::close;
using testing::in_double;
using testing::leaf;
using testing::open_slot;

struct Case {
  at::ScalarType compute, master;
  GateActivation activation;
  bool packed = false;
};

struct GatedLayers {
  static constexpr std::int64_t in = 12, hidden = 45, out = 9;

  explicit GatedLayers(at::ScalarType dtype)
      : gate(leaf({hidden, in}, dtype, 1, 0.5)),
        up(leaf({hidden, in}, dtype, 2, 0.5)),
        down(leaf({out, hidden}, dtype, 3, 0.3)) {}
  std::vector<at::Tensor> all() const { return {gate, up, down}; }
  GatedLayers doubles() const {
    GatedLayers other(at::kDouble);
    other.gate = in_double(gate);
    other.up = in_double(up);
    other.down = in_double(down);
    return other;
  }

  at::Tensor gate, up, down;
};

class MlpGated : public ::testing::TestWithParam<Case> {
 protected:
  MlpGated() {
    for (PreparedWeight* prepared : {&gate_, &up_, &down_}) prepared->pack(GetParam().packed);
  }
  at::ScalarType compute() const { return GetParam().compute; }
  at::ScalarType master() const { return GetParam().master; }
  at::Tensor input(std::int64_t rows) const {
    return leaf({rows, 2, GatedLayers::in}, compute(), 5);
  }
  at::Tensor upstream(std::int64_t rows) const {
    return leaf({rows, 2, GatedLayers::out}, compute(), 6).detach();
  }
  at::Tensor mlp(const at::Tensor& x, const GatedLayers& layers, GatedMlpOptions options = {}) {
    options.activation = GetParam().activation;
    return mlp_gated(x, layers.gate, gate_, layers.up, up_, layers.down, down_, options);
  }
  at::Tensor aten(const at::Tensor& x, const GatedLayers& layers) const {
    const at::Tensor gate = at::linear(x, layers.gate);
    const at::Tensor opened =
        GetParam().activation == GateActivation::silu ? at::silu(gate) : at::gelu(gate, "tanh");
    return at::linear(opened * at::linear(x, layers.up), layers.down);
  }
  std::vector<at::Tensor> gradients_of(const std::function<at::Tensor(const at::Tensor&)>& remake,
                                       const GatedMlpOptions& options) {
    const GatedLayers layers(master());
    const at::Tensor x = input(5);
    GatedMlpOptions used = options;
    if (remake) used.remake_x = [&, x] { return remake(x); };
    const at::Tensor y = mlp(x, layers, used);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({5, 2, GatedLayers::out}));
    y.backward(upstream(5));
    std::vector<at::Tensor> all = layers.all();
    all.push_back(x);
    for (at::Tensor& tensor : all) tensor = tensor.grad();
    return all;
  }
  /// Terms of the longest chain of sums in a gradient.
  static constexpr std::int64_t terms = 128;

  PreparedWeight gate_, up_, down_;
};
INSTANTIATE_TEST_SUITE_P(
    All, MlpGated,
    ::testing::Values(Case{at::kFloat, at::kFloat, GateActivation::silu},
                      Case{at::kDouble, at::kDouble, GateActivation::silu},
                      Case{at::kBFloat16, at::kFloat, GateActivation::silu},
                      Case{at::kFloat, at::kFloat, GateActivation::gelu_tanh},
                      Case{at::kDouble, at::kDouble, GateActivation::gelu_tanh},
                      Case{at::kBFloat16, at::kFloat, GateActivation::gelu_tanh},
                      Case{at::kFloat, at::kFloat, GateActivation::silu, /*packed=*/true},
                      Case{at::kBFloat16, at::kFloat, GateActivation::silu, /*packed=*/true}),
    [](const auto& param) {
      return std::string(c10::toString(param.param.compute)) +
             (param.param.activation == GateActivation::silu ? "Silu" : "Gelu") +
             (param.param.packed ? "Packed" : "");
    });

TEST_P(MlpGated, MatchesATen) {
  for (const std::int64_t rows : {1, 7}) {
    const GatedLayers layers(master()), reference = layers.doubles();
    const at::Tensor x = input(rows), rx = in_double(x), grad = upstream(rows);
    const at::Tensor y = mlp(x, layers);
    y.backward(grad);
    const at::Tensor expected = aten(rx, reference);
    expected.backward(in_double(grad).detach());
    EXPECT_TRUE(close(y, expected, compute(), terms));
    EXPECT_TRUE(close(x.grad(), rx.grad(), compute(), terms));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(close(layers.all()[i].grad(), reference.all()[i].grad(), compute(), terms)) << i;
      EXPECT_FALSE(close(layers.all()[i].grad(), reference.all()[i].grad() * 1.2, compute(), terms))
          << i;
    }
    // The comparison detects an exchange of the gate and the other projection.
    GatedLayers swapped = reference;
    std::swap(swapped.gate, swapped.up);
    EXPECT_FALSE(close(y, aten(rx, swapped), compute(), terms));
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(mlp(x, layers), y));
  }
}

TEST_P(MlpGated, MakesItsInputAgainToTheBit) {
  std::int64_t remade = 0;
  const auto expected = gradients_of({}, {});
  const auto actual = gradients_of(
      [&remade](const at::Tensor& x) {
        EXPECT_FALSE(at::GradMode::is_enabled());
        ++remade;
        return x.detach();
      },
      {});
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
  EXPECT_EQ(remade, 1);
}

TEST_P(MlpGated, LeavesOutAResultThatNobodyReads) {
  const auto expected = gradients_of({}, {}), actual = gradients_of({}, {.result_unread = true});
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
}

TEST_P(MlpGated, GivesTheSameGradientsAgainWhereTheGraphIsKept) {
  const GatedLayers layers(master());
  const at::Tensor x = input(5), y = mlp(x, layers), grad = upstream(5);
  std::vector<at::Tensor> all = layers.all();
  all.push_back(x);
  const auto kept = torch::autograd::grad({y}, all, {grad}, /*retain_graph=*/true);
  const auto last = torch::autograd::grad({y}, all, {grad}, /*retain_graph=*/false);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(at::equal(last[i], kept[i])) << i;
}

TEST_P(MlpGated, AddsUpInSlots) {
  const at::Tensor x = input(8), grad = upstream(8);
  const GatedLayers whole(master()), split(master()), plain(master());
  std::vector<std::shared_ptr<GradSlot>> whole_slots, split_slots;
  for (const at::Tensor& parameter : whole.all()) whole_slots.push_back(open_slot(parameter));
  for (const at::Tensor& parameter : split.all()) split_slots.push_back(open_slot(parameter));
  mlp(x, plain).backward(grad);
  mlp(x, whole).backward(grad);
  for (const std::int64_t begin : {0, 3}) {
    const std::int64_t rows = begin == 0 ? 3 : 5;
    mlp(x.narrow(0, begin, rows), split).backward(grad.narrow(0, begin, rows));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const at::Tensor expected = plain.all()[i].grad();
    EXPECT_TRUE(close(whole_slots[i]->main, expected, master(), terms)) << i;
    EXPECT_TRUE(close(split_slots[i]->main, expected, master(), terms)) << i;
    EXPECT_EQ(whole_slots[i]->contributions, 1);
    EXPECT_EQ(split_slots[i]->contributions, 2);
    EXPECT_FALSE(whole.all()[i].grad().defined());
  }
}

/// Each weight frozen, each alone trained, and all frozen: the computed gradients are those of a
/// pass in which all are trained.
TEST_P(MlpGated, ComputesOnlyWhatIsWanted) {
  const auto expected = gradients_of({}, {});
  for (int wanted = 1; wanted < 16; ++wanted) {
    const GatedLayers layers(master());
    std::vector<at::Tensor> all = layers.all();
    all.push_back(input(5));
    for (std::size_t i = 0; i < all.size(); ++i) all[i].requires_grad_((wanted >> i & 1) != 0);
    mlp(all.back(), layers).backward(upstream(5));
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i].grad().defined(), (wanted >> i & 1) != 0) << wanted << ", " << i;
      if (all[i].grad().defined()) {
        EXPECT_TRUE(at::equal(all[i].grad(), expected[i])) << wanted << ", " << i;
      }
    }
  }
}

TEST(Silu, IsRightFarOut) {
  PreparedWeight gate, up, down;
  const at::Tensor one = at::ones({1, 1});
  const auto opened = [&](double value) {
    return mlp_gated(at::full({1, 1}, value), one, gate, one, up, one, down, {}).item<double>();
  };
  for (const double value : {20.0, 88.0, 200.0, 1e15})
    EXPECT_NEAR(opened(value) / (value * value), 1, 1e-6) << value;
  for (const double value : {-200.0, -1e15, -1e30}) EXPECT_EQ(opened(value), 0) << value;
  EXPECT_TRUE(std::isnan(opened(NAN)));
}

TEST(MlpGated, RefusesWeightsThatDoNotFit) {
  PreparedWeight a, b, c;
  const at::Tensor x = at::ones({2, 3}), w = at::ones({4, 3}), down = at::ones({5, 4});
  EXPECT_NO_THROW(mlp_gated(x, w, a, w, b, down, c));
  EXPECT_THROW(mlp_gated(x, w, a, at::ones({6, 3}), b, down, c), Error);
  EXPECT_THROW(mlp_gated(x, w, a, at::ones({4, 2}), b, down, c), Error);
  EXPECT_THROW(mlp_gated(x, w, a, w, b, at::ones({5, 3}), c), Error);
}

}  // namespace mlp_gated_test
}  // namespace accrue::kernels
