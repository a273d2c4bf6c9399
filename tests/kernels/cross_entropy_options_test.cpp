#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "accrue/kernels/cross_entropy.h"
#include "kernels/gradients.h"
#include "kernels/head_cases.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace cross_entropy_options_test {

using testing::close;
using testing::error_of;
using ::testing::HasSubstr;
using testing::in_double;
using testing::leaf;
using testing::open_slot;

constexpr std::int64_t rows = 30, channels = 8, classes = 11, ignored = 4;

class CrossEntropyOptionsOf : public testing::HeadTest {
 protected:
  CrossEntropyOptionsOf() {
    targets_.slice(0, 0, rows, 7).fill_(ignored);
    row_weights_.slice(0, 3, rows, 6).zero_();
  }

  /// torch's own label smoothing, and the z-loss written out, by rows in double.
  at::Tensor reference(const at::Tensor& logits, const CrossEntropyOptions& options) const {
    const at::Tensor capped =
        options.soft_cap == 0 ? logits : options.soft_cap * (logits / options.soft_cap).tanh();
    at::Tensor losses = at::cross_entropy_loss(capped, targets_, {}, at::Reduction::None,
                                               options.ignored, options.label_smoothing);
    losses = losses + options.z_loss * capped.exp().sum(-1).log().square();
    at::Tensor counted = targets_.ne(options.ignored).to(at::kDouble);
    if (options.row_weights.defined()) counted = counted * options.row_weights;
    return (losses * counted).sum();
  }

  CrossEntropyOptions all_options() const {
    return {.row_weights = row_weights_,
            .ignored = ignored,
            .label_smoothing = 0.2,
            .z_loss = 0.1,
            .soft_cap = 3};
  }

  const at::Tensor hidden_ = leaf({rows, channels}, compute(), 1),
                   weight_ = leaf({classes, channels}, master(), 2);
  at::Tensor targets_ = at::arange(rows).mul(7).remainder(classes),
             row_weights_ = at::arange(rows).remainder(5).to(at::kFloat) * 0.5 + 0.25;
};
INSTANTIATE_TEST_SUITE_P(All, CrossEntropyOptionsOf, ::testing::ValuesIn(testing::all_cases),
                         testing::case_name);

/// Each option alone, and all together; the loss of a different option must not match.
TEST_P(CrossEntropyOptionsOf, GiveTorchsLossAndGradients) {
  const CrossEntropyOptions all = all_options();
  const std::vector<CrossEntropyOptions> cases{
      {},
      {.ignored = ignored},
      {.label_smoothing = all.label_smoothing},
      {.z_loss = all.z_loss},
      {.soft_cap = all.soft_cap},
      {.label_smoothing = all.label_smoothing, .z_loss = all.z_loss, .soft_cap = 40},
      all};
  std::vector<at::Tensor> seen;
  for (const CrossEntropyOptions& options : cases) {
    SCOPED_TRACE(seen.size());
    const at::Tensor rhidden = in_double(hidden_), rweight = in_double(weight_);
    const at::Tensor expected = reference(at::matmul(rhidden, rweight.t()), options);
    const auto expected_gradients = torch::autograd::grad({expected}, {rhidden, rweight});
    for (const std::int64_t chunk_rows : {0, 1, 7, 64}) {
      const Loss loss = linear_cross_entropy(hidden_, weight_, targets_, copy_,
                                             {.loss = options, .chunk_rows = chunk_rows});
      EXPECT_EQ(loss.weight, label_weight(targets_, options.row_weights, options.ignored));
      EXPECT_TRUE(close(loss.sum, expected, compute(), classes));
      const auto gradients = torch::autograd::grad({loss.sum}, {hidden_, weight_});
      for (std::size_t i = 0; i < gradients.size(); ++i)
        EXPECT_TRUE(close(gradients[i], expected_gradients[i], compute(), 4 * rows));
    }
    for (const at::Tensor& other : seen)
      EXPECT_FALSE(close(other, expected_gradients[0], compute(), 4 * rows));
    seen.push_back(expected_gradients[0]);
  }
}

TEST_P(CrossEntropyOptionsOf, MeanTheSameForLogitsAtHand) {
  const at::Tensor logits = leaf({rows, classes}, compute(), 5, 2), wide = in_double(logits);
  for (const CrossEntropyOptions& options : {CrossEntropyOptions{}, all_options()}) {
    const at::Tensor expected = reference(wide, options);
    const Loss loss = cross_entropy(logits, targets_, options);
    EXPECT_EQ(loss.weight, label_weight(targets_, options.row_weights, options.ignored));
    EXPECT_TRUE(close(loss.sum, expected, compute(), classes));
    const auto gradient = torch::autograd::grad({loss.sum}, {logits});
    EXPECT_TRUE(
        close(gradient[0], torch::autograd::grad({expected}, {wide})[0], compute(), classes));
  }
}

/// Logits from one end of the cap to the other: the smallest exponential still differs from 0.
TEST_P(CrossEntropyOptionsOf, CapLogitsThatLieFarApart) {
  const CrossEntropyOptions options{
      .ignored = ignored, .label_smoothing = 0.2, .z_loss = 0.1, .soft_cap = 40};
  const at::Tensor hidden = leaf({rows, channels}, compute(), 1, 12);
  const at::Tensor rhidden = in_double(hidden), rweight = in_double(weight_);
  const at::Tensor expected = reference(at::matmul(rhidden, rweight.t()), options);
  const Loss loss = linear_cross_entropy(hidden, weight_, targets_, copy_, {.loss = options});
  EXPECT_TRUE(close(loss.sum, expected, compute(), classes));
  const auto actual = torch::autograd::grad({loss.sum}, {hidden, weight_});
  const auto wanted = torch::autograd::grad({expected}, {rhidden, rweight});
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(close(actual[i], wanted[i], compute(), 16 * rows)) << i;
    EXPECT_FALSE(close(actual[i] * 1.02, wanted[i], compute(), 16 * rows)) << i;
  }
}

TEST_P(CrossEntropyOptionsOf, GiveIgnoredRowsNothing) {
  for (const at::Tensor& gradient :
       {torch::autograd::grad(
            {linear_cross_entropy(hidden_, weight_, targets_, copy_, {.loss = all_options()}).sum},
            {hidden_})[0],
        [&] {
          const at::Tensor logits = leaf({rows, classes}, compute(), 5);
          return torch::autograd::grad({cross_entropy(logits, targets_, all_options()).sum},
                                       {logits})[0];
        }()}) {
    const at::Tensor counts = targets_.ne(ignored) & row_weights_.ne(0);
    EXPECT_TRUE(at::equal(gradient.abs().amax(-1).ne(0), counts));
  }
}

TEST_P(CrossEntropyOptionsOf, AreRefusedOutOfRangeBeforeAnythingIsAdded) {
  const auto slot = open_slot(weight_);
  const auto message = [&](const LinearCrossEntropyOptions& options) {
    return error_of([&] { linear_cross_entropy(hidden_, weight_, targets_, copy_, options); });
  };
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double wrong : {-0.1, 1.0, double{NAN}}) {
    EXPECT_THAT(message({.loss = {.label_smoothing = wrong}}), HasSubstr("label smoothing"));
    EXPECT_THAT(error_of([&] {
                  cross_entropy(at::zeros({rows, classes}), targets_, {.label_smoothing = wrong});
                }),
                HasSubstr("label smoothing"));
  }
  for (const double wrong : {-1e-4, infinity, double{NAN}})
    EXPECT_THAT(message({.loss = {.z_loss = wrong}}), HasSubstr("z-loss"));
  for (const double wrong : {-1.0, 41.0, infinity, double{NAN}})
    EXPECT_THAT(message({.loss = {.soft_cap = wrong}}), HasSubstr("soft cap"));
  for (const double wrong : {0.0, infinity, double{NAN}})
    EXPECT_THAT(message({.gradient_scale = wrong}), HasSubstr("gradient_scale"));
  EXPECT_THAT(message({.chunk_rows = -1}), HasSubstr("chunk_rows"));
  targets_[3] = -100;  // an invalid label if another value is ignored
  EXPECT_THAT(message({.loss = {.ignored = ignored}}), HasSubstr("-100 in row 3"));
  EXPECT_EQ(slot->contributions, 0);
}

/// Scales beyond fp32, or 0 there, which fp64 can represent.
TEST_P(CrossEntropyOptionsOf, RefuseAGradientScaleThatTheSumsPrecisionDoesNotHave) {
  for (const double scale : {1e39, -1e39, 1e-46}) {
    const auto run = [&] {
      linear_cross_entropy(hidden_, weight_, targets_, copy_, {.gradient_scale = scale});
    };
    if (compute() == at::kDouble)
      EXPECT_NO_THROW(run());
    else
      EXPECT_THAT(error_of(run), HasSubstr("gradient_scale"));
  }
}

/// A power of two, so that scaling is exact.
TEST_P(CrossEntropyOptionsOf, MakeGradientsForTheUpstreamTheyAreTold) {
  const auto run = [&](double scale) {
    hidden_.mutable_grad().reset();
    const auto slot = open_slot(weight_);
    const Loss loss = linear_cross_entropy(hidden_, weight_, targets_, copy_,
                                           {.loss = all_options(), .gradient_scale = scale});
    torch::autograd::backward({loss.sum}, {at::full({}, scale, loss.sum.options())});
    EXPECT_EQ(slot->contributions, 1);
    EXPECT_FALSE(weight_.grad().defined());
    return std::vector{hidden_.grad(), slot->main, loss.sum.detach()};
  };
  const auto once = run(1), eight = run(8), negative = run(-0.5);
  for (const std::size_t gradient : {0, 1}) {
    EXPECT_TRUE(at::equal(eight[gradient], once[gradient] * 8));
    EXPECT_TRUE(at::equal(negative[gradient], once[gradient] * -0.5));
  }
  EXPECT_TRUE(at::equal(eight[2], once[2]));
}

TEST_P(CrossEntropyOptionsOf, RefuseAnotherUpstreamWhereASlotTookPart) {
  const auto slot = open_slot(weight_);
  const Loss loss =
      linear_cross_entropy(hidden_, weight_, targets_, copy_, {.gradient_scale = 0.25});
  EXPECT_THAT(error_of([&] { loss.sum.backward(); }), HasSubstr("the gradient 0.25"));
  const Loss again =
      linear_cross_entropy(hidden_, weight_, targets_, copy_, {.gradient_scale = 1.0 / 3});
  // Both sides round one third to the sum's precision.
  torch::autograd::backward({again.sum}, {at::full({}, 1.0 / 3, again.sum.options())});
  EXPECT_TRUE(hidden_.grad().defined());
}

/// In host memory the actual upstream gradient is read, whatever the caller announced.
TEST_P(CrossEntropyOptionsOf, ReadTheUpstreamInHostMemory) {
  const auto gradients = [&](const LinearCrossEntropyOptions& options) {
    const Loss loss = linear_cross_entropy(hidden_, weight_, targets_, copy_, options);
    return torch::autograd::grad({loss.sum * 0.5}, {hidden_, weight_});
  };
  const auto said = gradients({.gradient_scale = 0.25, .upstream = 0.25}),
             unsaid = gradients({.gradient_scale = 0.25});
  for (std::size_t i = 0; i < said.size(); ++i) EXPECT_TRUE(at::equal(said[i], unsaid[i]));
  const auto slot = open_slot(weight_);
  const Loss loss = linear_cross_entropy(hidden_, weight_, targets_, copy_,
                                         {.gradient_scale = 0.25, .upstream = 0.25});
  EXPECT_THAT(error_of([&] { loss.sum.backward(); }), HasSubstr("the gradient 0.25"));
}

TEST_P(CrossEntropyOptionsOf, RescaleWithoutASlot) {
  const auto gradients = [&](double told, double upstream) {
    const Loss loss =
        linear_cross_entropy(hidden_, weight_, targets_, copy_, {.gradient_scale = told});
    return torch::autograd::grad({loss.sum * upstream}, {hidden_, weight_});
  };
  const auto told = gradients(0.25, 0.25), untold = gradients(1, 0.25);
  for (std::size_t i = 0; i < told.size(); ++i) EXPECT_TRUE(at::equal(told[i], untold[i]));
}

TEST_P(CrossEntropyOptionsOf, RescaleAsOftenAsAKeptGraphIsAsked) {
  const at::Tensor part = linear_cross_entropy(hidden_, weight_, targets_, copy_, {}).sum * 0.25;
  const auto first = torch::autograd::grad({part}, {hidden_, weight_}, {}, true);
  const auto second = torch::autograd::grad({part}, {hidden_, weight_});
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i]));
}

}  // namespace cross_entropy_options_test
}  // namespace accrue::kernels
