#include "accrue/kernels/norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>

#include "accrue/core/error.h"
#include "accrue/kernels/grad_slot.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace norm_test {

using accrue::testing::close;

constexpr double eps = 1e-5;

at::Tensor leaf(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed, double mean = 0) {
  at::manual_seed(seed);
  return (at::randn(sizes, at::kDouble) + mean).to(dtype).requires_grad_(true);
}

at::Tensor in_double(const at::Tensor& tensor) {
  return tensor.detach().to(at::kDouble).clone().requires_grad_(true);
}

struct Case {
  at::ScalarType master, out;
};

class Norm : public ::testing::TestWithParam<Case> {
 protected:
  at::ScalarType master() const { return GetParam().master; }
  at::ScalarType out() const { return GetParam().out; }
  /// The coarser of the two: the precision of a gradient that passed through the result.
  at::ScalarType precision() const { return out(); }
};
INSTANTIATE_TEST_SUITE_P(
    All, Norm,
    ::testing::Values(Case{at::kFloat, at::kFloat}, Case{at::kFloat, at::kBFloat16},
                      Case{at::kDouble, at::kDouble}, Case{at::kDouble, at::kBFloat16}),
    [](const auto& param) {
      return std::string(c10::toString(param.param.master)) + "To" + c10::toString(param.param.out);
    });

TEST_P(Norm, MatchesATenForwardsAndBackwards) {
  for (const std::int64_t rows : {1, 7, 65, 300})
    for (const std::int64_t channels : {1, 7, 48, 65, 384}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << channels);
      const at::Tensor x = leaf({rows, channels}, master(), 1, 3),
                       w = leaf({channels}, master(), 2), b = leaf({channels}, master(), 3);
      const at::Tensor grad = leaf({rows, channels}, out(), 4).detach();
      const at::Tensor y = layer_norm(x, w, b, eps, out());
      ASSERT_EQ(y.scalar_type(), out());
      y.backward(grad);

      const at::Tensor rx = in_double(x), rw = in_double(w), rb = in_double(b);
      const at::Tensor expected = at::layer_norm(rx, {channels}, rw, rb, eps);
      expected.backward(grad.to(at::kDouble));
      EXPECT_TRUE(close(y, expected, out(), channels));
      EXPECT_TRUE(close(b.grad(), rb.grad(), master(), rows));
      // With one channel these are zero, and the reference is only rounding.
      if (channels > 1) {
        EXPECT_TRUE(close(w.grad(), rw.grad(), master(), 4 * rows + channels));
        EXPECT_TRUE(close(x.grad(), rx.grad(), master(), 16 * channels));
      }
    }
}

TEST_P(Norm, AddsTheResidualAndBothGradients) {
  const std::int64_t channels = 65;
  for (const at::ScalarType y_dtype : {master(), at::kBFloat16})
    for (const bool use_sum : {true, false})
      for (const bool use_out : {true, false}) {
        if (!use_sum && !use_out) continue;
        const at::Tensor x = leaf({3, 11, channels}, master(), 1),
                         y = leaf({3, 11, channels}, y_dtype, 5), w = leaf({channels}, master(), 2),
                         b = leaf({channels}, master(), 3);
        const at::Tensor g_sum = leaf({3, 11, channels}, master(), 6).detach(),
                         g_out = leaf({3, 11, channels}, out(), 7).detach();
        const auto [sum, normal] = add_layer_norm(x, y, w, b, eps, out());
        const at::Tensor rx = in_double(x), ry = in_double(y), rw = in_double(w), rb = in_double(b);
        const at::Tensor r_sum = rx + ry, r_out = at::layer_norm(r_sum, {channels}, rw, rb, eps);
        EXPECT_TRUE(close(sum, r_sum, master(), 1));
        EXPECT_TRUE(close(normal, r_out, out(), channels));

        at::Tensor loss = at::zeros({}, at::kDouble), expected = at::zeros({}, at::kDouble);
        if (use_sum) {
          loss = loss + (sum * g_sum).to(at::kDouble).sum();
          expected = expected + (r_sum * g_sum.to(at::kDouble)).sum();
        }
        if (use_out) {
          loss = loss + (normal.to(at::kDouble) * g_out.to(at::kDouble)).sum();
          expected = expected + (r_out * g_out.to(at::kDouble)).sum();
        }
        loss.backward();
        expected.backward();
        EXPECT_TRUE(close(x.grad(), rx.grad(), master(), 16 * channels));
        ASSERT_EQ(y.grad().scalar_type(), y_dtype);
        EXPECT_TRUE(close(y.grad(), ry.grad(), y_dtype, 16 * channels));
        EXPECT_EQ(w.grad().defined(), use_out);
        if (use_out) {
          EXPECT_TRUE(close(w.grad(), rw.grad(), master(), 4 * 33 + channels));
          EXPECT_TRUE(close(b.grad(), rb.grad(), master(), 33));
        }
      }
}

TEST_P(Norm, BranchesAndAddsBothGradients) {
  const std::int64_t channels = 65;
  for (const bool use_stream : {true, false})
    for (const bool use_out : {true, false}) {
      if (!use_stream && !use_out) continue;
      const at::Tensor x = leaf({3, 11, channels}, master(), 1), w = leaf({channels}, master(), 2),
                       b = leaf({channels}, master(), 3);
      const at::Tensor g_stream = leaf({3, 11, channels}, master(), 6).detach(),
                       g_out = leaf({3, 11, channels}, out(), 7).detach();
      const auto [stream, normal] = branch_layer_norm(x, w, b, eps, out());
      EXPECT_TRUE(at::equal(stream, x));
      EXPECT_TRUE(at::equal(normal, layer_norm(x, w, b, eps, out())));

      const at::Tensor rx = in_double(x), rw = in_double(w), rb = in_double(b);
      const at::Tensor r_out = at::layer_norm(rx, {channels}, rw, rb, eps);
      torch::autograd::variable_list results, grads;
      at::Tensor expected = at::zeros({}, at::kDouble);
      if (use_stream) {
        results.push_back(stream);
        grads.push_back(g_stream);
        expected = expected + (rx * g_stream.to(at::kDouble)).sum();
      }
      if (use_out) {
        results.push_back(normal);
        grads.push_back(g_out);
        expected = expected + (r_out * g_out.to(at::kDouble)).sum();
      }
      torch::autograd::backward(results, grads);
      expected.backward();
      EXPECT_TRUE(close(x.grad(), rx.grad(), master(), 16 * channels));
      if (use_stream && use_out) {
        // The comparison sees a gradient of the stream that is left out.
        EXPECT_FALSE(close(x.grad() - g_stream, rx.grad(), master(), 16 * channels));
      }
      EXPECT_EQ(w.grad().defined(), use_out);
      if (!use_out) continue;
      EXPECT_TRUE(close(w.grad(), rw.grad(), master(), 4 * 33 + channels));
      EXPECT_TRUE(close(b.grad(), rb.grad(), master(), 33));
    }
}

TEST(LayerNorm, ComparatorSeesAMissingEpsilon) {
  const at::Tensor x = leaf({5, 64}, at::kFloat, 1) * 0.01, w = leaf({64}, at::kFloat, 2),
                   b = leaf({64}, at::kFloat, 3);
  const at::Tensor wrong =
      at::layer_norm(x.to(at::kDouble), {64}, w.to(at::kDouble), b.to(at::kDouble), 0);
  EXPECT_FALSE(close(layer_norm(x, w, b, eps, at::kFloat), wrong, at::kFloat, 64));
}

TEST(LayerNorm, PutsParameterGradientsIntoOpenSlots) {
  const at::Tensor x = leaf({37, 48}, at::kFloat, 1), w = leaf({48}, at::kFloat, 2),
                   b = leaf({48}, at::kFloat, 3);
  layer_norm(x, w, b, eps, at::kFloat).sum().backward();
  const at::Tensor w_grad = w.grad().clone(), b_grad = b.grad().clone();
  w.mutable_grad().reset();
  b.mutable_grad().reset();

  // The contents of a fresh slot are not read.
  const auto w_slot = std::make_shared<GradSlot>(at::full({48}, 77.0)),
             b_slot = std::make_shared<GradSlot>(at::full({48}, 77.0));
  attach(w, w_slot);
  attach(b, b_slot);
  w_slot->open = b_slot->open = true;
  layer_norm(x, w, b, eps, at::kFloat).sum().backward();
  EXPECT_TRUE(at::equal(w_slot->main, w_grad));
  EXPECT_TRUE(at::equal(b_slot->main, b_grad));
  layer_norm(x, w, b, eps, at::kFloat).sum().backward();
  EXPECT_TRUE(close(w_slot->main, 2 * w_grad, at::kFloat, 1));
  EXPECT_TRUE(close(b_slot->main, 2 * b_grad, at::kFloat, 1));
  EXPECT_EQ(w_slot->contributions, 2);
  EXPECT_FALSE(b_slot->fresh);
}

TEST(LayerNorm, LeavesParametersAloneWhoseGradientIsNotWanted) {
  const at::Tensor x = leaf({5, 48}, at::kFloat, 1), w = leaf({48}, at::kFloat, 2),
                   b = leaf({48}, at::kFloat, 3);
  const auto w_slot = std::make_shared<GradSlot>(at::zeros({48})),
             b_slot = std::make_shared<GradSlot>(at::zeros({48}));
  attach(w, w_slot);
  attach(b, b_slot);
  w_slot->open = b_slot->open = true;
  const auto [sum, out] = add_layer_norm(x, x.detach(), w, b, eps, at::kFloat);
  for (const at::Tensor& y : {layer_norm(x, w, b, eps, at::kFloat), out})
    EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].defined());
  EXPECT_EQ(w_slot->contributions, 0);
  EXPECT_EQ(b_slot->contributions, 0);
}

TEST(LayerNorm, HasTheSameBitsForAnyNumberOfThreads) {
  const auto gradient = [] {
    const at::Tensor x = leaf({700, 96}, at::kFloat, 1), w = leaf({96}, at::kFloat, 2),
                     b = leaf({96}, at::kFloat, 3);
    layer_norm(x, w, b, eps, at::kFloat).square().sum().backward();
    return at::cat({x.grad().flatten(), w.grad(), b.grad()});
  };
  const int threads = at::get_num_threads();
  const at::Tensor together = gradient();
  at::set_num_threads(1);
  const at::Tensor alone = gradient();
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone, together));
}

TEST(LayerNorm, SurvivesALargeMean) {
  const at::Tensor x = (leaf({4, 100}, at::kDouble, 1).detach() + 1e4).to(at::kFloat);
  const at::Tensor w = at::ones({100}), b = at::zeros({100});
  const at::Tensor expected =
      at::layer_norm(x.to(at::kDouble), {100}, w.to(at::kDouble), b.to(at::kDouble), eps);
  // The mean is known to 1e4 * 2^-24, against a deviation of 1.
  EXPECT_LE((layer_norm(x, w, b, eps, at::kFloat) - expected).abs().max().item<double>(), 4e-3);
}

TEST(LayerNorm, RefusesWhatItCannotDo) {
  const at::Tensor x = at::ones({2, 4}), w = at::ones({4}), b = at::ones({4});
  EXPECT_THROW(layer_norm(x.to(at::kBFloat16), w, b, eps, at::kBFloat16), Error);
  EXPECT_THROW(layer_norm(x, at::ones({5}), b, eps, at::kFloat), Error);
  EXPECT_THROW(layer_norm(x, w, b, eps, at::kDouble), Error);
  EXPECT_THROW(add_layer_norm(x, at::ones({3, 4}), w, b, eps, at::kFloat), Error);
}

}  // namespace norm_test
}  // namespace accrue::kernels
