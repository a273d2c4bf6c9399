#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "accrue/core/error.h"
#include "accrue/kernels/norm.h"
#include "kernels/gradients.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace rms_norm_test {

using testing::close;
using testing::in_double;
using testing::leaf;
using testing::open_slot;

struct Case {
  at::ScalarType x, out;
};

/// Written out, in double.
at::Tensor written_out(const at::Tensor& x, const at::Tensor& weight,
                       const RmsNormOptions& options) {
  return x / (x.square().mean(-1, true) + options.eps).sqrt() * (weight + options.offset);
}

class RmsNorm : public ::testing::TestWithParam<Case> {
 protected:
  at::ScalarType x_dtype() const { return GetParam().x; }
  at::ScalarType out() const { return GetParam().out; }
  at::ScalarType master() const { return x_dtype() == at::kDouble ? at::kDouble : at::kFloat; }
};
INSTANTIATE_TEST_SUITE_P(
    All, RmsNorm,
    ::testing::Values(Case{at::kFloat, at::kFloat}, Case{at::kFloat, at::kBFloat16},
                      Case{at::kDouble, at::kDouble}, Case{at::kDouble, at::kBFloat16},
                      Case{at::kBFloat16, at::kBFloat16}),
    [](const auto& param) {
      return std::string(c10::toString(param.param.x)) + "To" + c10::toString(param.param.out);
    });

TEST_P(RmsNorm, MatchesTheFormulaForwardsAndBackwards) {
  for (const double offset : {0.0, 1.0})
    for (const std::int64_t rows : {1, 7, 65, 300})
      for (const std::int64_t channels : {1, 7, 48, 65, 384}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << channels << ", offset " << offset);
        const RmsNormOptions options{.eps = 1e-5, .offset = offset};
        const at::Tensor x = leaf({rows, channels}, x_dtype(), 1),
                         w = leaf({channels}, master(), 2);
        const at::Tensor grad = leaf({rows, channels}, out(), 4).detach();
        const at::Tensor y = rms_norm(x, w, options, out());
        ASSERT_EQ(y.scalar_type(), out());
        y.backward(grad);
        ASSERT_EQ(x.grad().scalar_type(), x_dtype());

        const at::Tensor rx = in_double(x), rw = in_double(w);
        const at::Tensor expected = written_out(rx, rw, options);
        expected.backward(grad.to(at::kDouble));
        EXPECT_TRUE(close(y, expected, out(), channels));
        EXPECT_TRUE(close(w.grad(), rw.grad(), master(), 4 * rows + channels));
        // With one channel the gradient comes from the epsilon alone, and the rest cancels.
        if (channels > 1) {
          EXPECT_TRUE(close(x.grad(), rx.grad(), x_dtype(), 16 * channels));
        }
      }
}

TEST_P(RmsNorm, ComparatorSeesAMissingOffsetAndAMeanTakenAway) {
  const at::Tensor x = leaf({5, 64}, x_dtype(), 1), w = leaf({64}, master(), 2);
  const RmsNormOptions options{.eps = 1e-5, .offset = 1};
  const at::Tensor y = rms_norm(x, w, options, out());
  const at::Tensor rx = in_double(x), rw = in_double(w);
  EXPECT_FALSE(close(y, written_out(rx, rw, {.eps = 1e-5}), out(), 64));
  EXPECT_FALSE(close(y, written_out(rx - rx.mean(-1, true), rw, options), out(), 64));
}

class ResidualRmsNorm : public RmsNorm {};
INSTANTIATE_TEST_SUITE_P(All, ResidualRmsNorm,
                         ::testing::Values(Case{at::kFloat, at::kFloat},
                                           Case{at::kFloat, at::kBFloat16},
                                           Case{at::kDouble, at::kDouble}),
                         [](const auto& param) {
                           return std::string(c10::toString(param.param.x)) + "To" +
                                  c10::toString(param.param.out);
                         });

/// The gradients of a sum and of its norm, separately and together: those of x, y and the weight.
TEST_P(ResidualRmsNorm, AddsTheResidualAndBothGradients) {
  constexpr std::int64_t channels = 65;
  const RmsNormOptions options{.eps = 1e-5, .offset = 1};
  for (const at::ScalarType y_dtype : {master(), at::kBFloat16})
    for (const bool use_sum : {true, false})
      for (const bool use_out : {true, false}) {
        if (!use_sum && !use_out) continue;
        const at::Tensor x = leaf({3, 11, channels}, master(), 1),
                         y = leaf({3, 11, channels}, y_dtype, 5), w = leaf({channels}, master(), 2);
        const at::Tensor g_sum = leaf({3, 11, channels}, master(), 6).detach(),
                         g_out = leaf({3, 11, channels}, out(), 7).detach();
        const auto [sum, normal] = add_rms_norm(x, y, w, options, out());
        const at::Tensor rx = in_double(x), ry = in_double(y), rw = in_double(w);
        const at::Tensor r_sum = rx + ry, r_out = written_out(r_sum, rw, options);
        EXPECT_TRUE(close(sum, r_sum, master(), 1));
        EXPECT_TRUE(close(normal, r_out, out(), channels));
        torch::autograd::variable_list results, grads;
        at::Tensor expected = at::zeros({}, at::kDouble);
        if (use_sum) {
          results.push_back(sum);
          grads.push_back(g_sum);
          expected = expected + (r_sum * g_sum.to(at::kDouble)).sum();
        }
        if (use_out) {
          results.push_back(normal);
          grads.push_back(g_out);
          expected = expected + (r_out * g_out.to(at::kDouble)).sum();
        }
        torch::autograd::backward(results, grads);
        expected.backward();
        EXPECT_TRUE(close(x.grad(), rx.grad(), master(), 16 * channels));
        ASSERT_EQ(y.grad().scalar_type(), y_dtype);
        EXPECT_TRUE(close(y.grad(), ry.grad(), y_dtype, 16 * channels));
        if (use_sum && use_out) {
          // The comparison sees a gradient of the sum that is left out.
          EXPECT_FALSE(close(x.grad() - g_sum, rx.grad(), master(), 16 * channels));
        }
        EXPECT_EQ(w.grad().defined(), use_out);
        if (use_out) {
          EXPECT_TRUE(close(w.grad(), rw.grad(), master(), 4 * 33 + channels));
        }
      }
}

TEST_P(ResidualRmsNorm, BranchesAsItAddsNothing) {
  const RmsNormOptions options{.eps = 1e-5, .offset = 1};
  const at::Tensor g_stream = leaf({3, 11, 65}, master(), 6).detach(),
                   g_out = leaf({3, 11, 65}, out(), 7).detach();
  const auto gradients = [&](bool branch) {
    const at::Tensor x = leaf({3, 11, 65}, master(), 1), w = leaf({65}, master(), 2);
    const auto [stream, normal] = branch ? branch_rms_norm(x, w, options, out())
                                         : add_rms_norm(x, at::zeros_like(x), w, options, out());
    EXPECT_TRUE(at::equal(stream, x));
    EXPECT_TRUE(at::equal(normal, rms_norm(x, w, options, out())));
    torch::autograd::backward({stream, normal}, {g_stream, g_out});
    return std::vector{x.grad(), w.grad()};
  };
  const auto branched = gradients(true), added = gradients(false);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(branched[i], added[i])) << i;
}

TEST(RmsNorm, PutsTheWeightsGradientIntoItsOpenSlot) {
  const at::Tensor x = leaf({37, 48}, at::kFloat, 1), w = leaf({48}, at::kFloat, 2);
  const RmsNormOptions options{.offset = 1};
  rms_norm(x, w, options, at::kFloat).sum().backward();
  const at::Tensor expected = w.grad().clone();
  w.mutable_grad().reset();
  const auto slot = open_slot(w);
  rms_norm(x, w, options, at::kFloat).sum().backward();
  EXPECT_TRUE(at::equal(slot->main, expected));
  rms_norm(x, w, options, at::kFloat).sum().backward();
  EXPECT_TRUE(close(slot->main, 2 * expected, at::kFloat, 1));
  EXPECT_EQ(slot->contributions, 2);
  EXPECT_FALSE(w.grad().defined());
}

TEST(RmsNorm, GivesXItsGradientWhereTheWeightIsFrozen) {
  const at::Tensor x = leaf({5, 48}, at::kFloat, 1), w = leaf({48}, at::kFloat, 2);
  rms_norm(x, w, {}, at::kFloat).square().sum().backward();
  const at::Tensor expected = x.grad().clone();
  x.mutable_grad().reset();
  const at::Tensor frozen = w.detach();
  rms_norm(x, frozen, {}, at::kFloat).square().sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), expected));
  EXPECT_FALSE(frozen.grad().defined());
}

TEST(RmsNorm, HasTheSameBitsForAnyNumberOfThreads) {
  const auto gradient = [] {
    const at::Tensor x = leaf({700, 96}, at::kFloat, 1), w = leaf({96}, at::kFloat, 2);
    rms_norm(x, w, {}, at::kFloat).square().sum().backward();
    return at::cat({x.grad().flatten(), w.grad()});
  };
  const int threads = at::get_num_threads();
  const at::Tensor together = gradient();
  at::set_num_threads(1);
  const at::Tensor alone = gradient();
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone, together));
}

TEST(RmsNorm, RefusesWhatItCannotDo) {
  const at::Tensor x = at::ones({2, 4}), w = at::ones({4});
  EXPECT_NO_THROW(rms_norm(x.to(at::kBFloat16), w, {}, at::kBFloat16));
  EXPECT_THROW(rms_norm(x.to(at::kBFloat16), w, {}, at::kFloat), Error);
  EXPECT_THROW(rms_norm(x.to(at::kBFloat16), w.to(at::kBFloat16), {}, at::kBFloat16), Error);
  EXPECT_THROW(branch_rms_norm(x.to(at::kBFloat16), w, {}, at::kBFloat16), Error);
  EXPECT_THROW(rms_norm(x, at::ones({5}), {}, at::kFloat), Error);
  EXPECT_THROW(rms_norm(x, w, {}, at::kDouble), Error);
  EXPECT_THROW(add_rms_norm(x, at::ones({3, 4}), w, {}, at::kFloat), Error);
}

}  // namespace rms_norm_test
}  // namespace accrue::kernels
