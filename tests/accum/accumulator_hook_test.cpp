// A hook on the mean gradient: the `.grad` that it sees, and the effect of its changes.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <limits>

#include "accrue/accum/accumulator.h"
#include "accum/problem.h"

namespace accrue {
namespace {

using accum::Accumulation;
using accum::MeanGradient;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

/// Four weights, for which each micro-batch of weight 1 has the gradient 1, 2, 3 and 4, and one
/// that no loss reaches.
struct Hooked {
  explicit Hooked(at::ScalarType dtype)
      : weight(torch::ones({4}, dtype).requires_grad_()),
        unused(torch::ones({4}, dtype).requires_grad_()) {}
  Loss loss() const { return {(weight * torch::arange(1, 5, weight.scalar_type())).sum(), 1}; }
  at::Tensor gradient() const { return torch::arange(1, 5, weight.scalar_type()); }
  at::Tensor weight, unused;
};

/// Two micro-batches and a step of SGD with a rate of 1.
StepReport hooked_step(Accumulator& accumulator, const Hooked& hooked) {
  torch::optim::SGD sgd({hooked.weight, hooked.unused}, 1.0);
  accumulator.backward(hooked.loss());
  accumulator.backward(hooked.loss());
  return accumulator.step(sgd);
}

struct Kind {
  at::ScalarType dtype;
  Accumulation accumulate;
};
const std::vector<Kind> kKinds{
    {at::kFloat, Accumulation::fp32},    {at::kDouble, Accumulation::fp32},
    {at::kBFloat16, Accumulation::fp32}, {at::kHalf, Accumulation::fp32},
    {at::kFloat, Accumulation::fp64},    {at::kBFloat16, Accumulation::fp64},
    {at::kFloat, Accumulation::fixed}};

std::string name_of(const Kind& kind) {
  return std::string(toString(kind.dtype)) + ", summed in " +
         std::string(to_string(kind.accumulate));
}

TEST(AccumulatorHook, SeesTheMeanInGradOfAnyDtype) {
  for (const Kind& kind : kKinds) {
    const Hooked hooked(kind.dtype);
    at::Tensor seen, seen_of_unused;
    Accumulator accumulator({hooked.weight, hooked.unused},
                            {.accumulate = kind.accumulate, .on_mean_gradient = [&](MeanGradient&) {
                               seen = hooked.weight.grad();
                               if (seen.defined()) seen = seen.clone();
                               seen_of_unused = hooked.unused.grad();
                             }});
    EXPECT_TRUE(hooked_step(accumulator, hooked).stepped) << name_of(kind);
    ASSERT_TRUE(seen.defined()) << name_of(kind);
    EXPECT_EQ(seen.scalar_type(), kind.dtype) << name_of(kind);
    EXPECT_TRUE(at::equal(seen, hooked.gradient())) << name_of(kind);
    EXPECT_FALSE(seen_of_unused.defined()) << name_of(kind);
  }
}

/// An action of a hook, and the gradient with which the step is then taken.
struct Deed {
  const char* name;
  std::function<void(const Hooked&, MeanGradient&)> act;
  std::vector<double> gradient, of_unused;
};

const std::vector<Deed>& deeds() {
  static const std::vector<Deed> all{
      {"nothing", [](const Hooked&, MeanGradient&) {}, {1, 2, 3, 4}, {0, 0, 0, 0}},
      {"writes to .grad",
       [](const Hooked& h, MeanGradient&) { h.weight.grad()[1].fill_(8); },
       {1, 8, 3, 4},
       {0, 0, 0, 0}},
      {"writes through data()",
       [](const Hooked& h, MeanGradient&) { h.weight.grad().data().mul_(2); },
       {2, 4, 6, 8},
       {0, 0, 0, 0}},
      {"puts another tensor there",
       [](const Hooked& h, MeanGradient&) { h.weight.mutable_grad() = h.weight.grad() + 1; },
       {2, 3, 4, 5},
       {0, 0, 0, 0}},
      {"takes .grad away",
       [](const Hooked& h, MeanGradient&) { h.weight.mutable_grad().reset(); },
       {0, 0, 0, 0},
       {0, 0, 0, 0}},
      {"gives one to what was not used",
       [](const Hooked& h, MeanGradient&) { h.unused.mutable_grad() = 2 * h.weight.grad(); },
       {1, 2, 3, 4},
       {2, 4, 6, 8}},
      {"clips and then writes",
       [](const Hooked& h, MeanGradient& gradient) {
         gradient.changed();
         gradient.clip(std::sqrt(30.0) / 2);
         h.weight.grad()[0].fill_(8);
       },
       {8, 1, 1.5, 2},
       {0, 0, 0, 0}},
  };
  return all;
}

at::Tensor values_of(const std::vector<double>& values) {
  return torch::tensor(values, at::kDouble);
}

TEST(AccumulatorHook, IsSteppedWithAsItLeavesTheGradient) {
  for (const Kind& kind : kKinds) {
    for (const Deed& deed : deeds()) {
      const std::string which = std::string(deed.name) + ": " + name_of(kind);
      const Hooked hooked(kind.dtype);
      Accumulator accumulator({hooked.weight, hooked.unused},
                              {.accumulate = kind.accumulate,
                               .on_mean_gradient = [&](MeanGradient& g) { deed.act(hooked, g); }});
      const StepReport report = hooked_step(accumulator, hooked);
      ASSERT_TRUE(report.stepped) << which;
      const at::Tensor expected = values_of(deed.gradient), of_unused = values_of(deed.of_unused);
      const at::Tensor moved = 1 - hooked.weight.detach().to(at::kDouble);
      const at::Tensor unused_moved = 1 - hooked.unused.detach().to(at::kDouble);
      EXPECT_TRUE(at::allclose(moved, expected, 0x1p-8, 0)) << which << ": " << moved;
      EXPECT_TRUE(at::allclose(unused_moved, of_unused, 0x1p-8, 0))
          << which << ": " << unused_moved;
      const double norm = at::cat({expected, of_unused}).norm().item<double>();
      EXPECT_NEAR(report.grad_norm.value(), norm, 0x1p-8 * norm) << which;
    }
  }
}

TEST(AccumulatorHook, IsClippedWithItsWritesInNarrowParameters) {
  const Hooked hooked(at::kBFloat16);
  Accumulator accumulator({hooked.weight, hooked.unused},
                          {.clip_norm = 2.5, .on_mean_gradient = [&](MeanGradient&) {
                             hooked.weight.grad().copy_(values_of({3, 4, 0, 0}));
                           }});
  EXPECT_NEAR(hooked_step(accumulator, hooked).grad_norm.value(), 5, 1e-6);
  EXPECT_TRUE(at::equal(1 - hooked.weight.detach().to(at::kDouble), values_of({1.5, 2, 0, 0})));
}

/// Digits that do not fit into a narrow parameter's `.grad` stay in the sum.
TEST(AccumulatorHook, RoundsNothingThatItLeaves) {
  const Hooked hooked(at::kBFloat16);
  Accumulator accumulator({hooked.weight, hooked.unused},
                          {.on_mean_gradient = [](MeanGradient&) {}});
  accumulator.backward({hooked.weight.sum(), 3});
  float mean = 0;
  accumulator.step([&](MeanGradient&& gradient) { gradient.source(0).read(0, 1, &mean); });
  EXPECT_EQ(mean, 1.0F / 3);
}

TEST(AccumulatorHook, LosesTheWindowWhereItLeavesANaN) {
  const std::vector<std::function<void(const at::Tensor&)>> ways{
      [](const at::Tensor& weight) { weight.grad()[2].fill_(kNotANumber); },
      [](const at::Tensor& weight) { weight.grad().data().div_(0.0); },
      [](const at::Tensor& weight) { weight.mutable_grad() = weight.grad() * kNotANumber; }};
  for (const Kind& kind : kKinds) {
    for (const auto& leave : ways) {
      for (const AccumulatorOptions& looked :
           std::vector<AccumulatorOptions>{{}, {.clip_norm = 1e6, .check_finite = false}}) {
        const Hooked hooked(kind.dtype);
        bool is_bad = true;
        std::vector<std::string> told;
        AccumulatorOptions options = looked;
        options.accumulate = kind.accumulate;
        options.on_mean_gradient = [&](MeanGradient&) {
          if (is_bad) leave(hooked.weight);
        };
        options.on_event = [&](const Event& event) {
          if (event.name == "dropped") told.push_back(event.reason);
        };
        Accumulator accumulator({hooked.weight, hooked.unused}, options);
        const StepReport report = hooked_step(accumulator, hooked);
        EXPECT_FALSE(report.stepped) << name_of(kind);
        EXPECT_FALSE(report.grad_norm.has_value());
        EXPECT_TRUE(at::equal(hooked.weight, torch::ones({4}, kind.dtype))) << name_of(kind);
        EXPECT_FALSE(hooked.weight.grad().defined());
        EXPECT_THAT(told, ElementsAre(HasSubstr("on_mean_gradient left a gradient whose norm is")));
        EXPECT_TRUE(accumulator.current_window().is_lost());
        EXPECT_FALSE(accumulator.pending());

        is_bad = false;
        const StepReport next = hooked_step(accumulator, hooked);
        EXPECT_TRUE(next.stepped) << "the window after it";
        EXPECT_EQ(next.step, 1);
        EXPECT_TRUE(at::equal(hooked.weight, 1 - hooked.gradient())) << name_of(kind);
      }
    }
  }
}

TEST(AccumulatorHook, MayLeaveAnythingWhereNobodyLooks) {
  const Hooked hooked(at::kFloat);
  Accumulator accumulator({hooked.weight, hooked.unused},
                          {.check_finite = false, .on_mean_gradient = [&](MeanGradient&) {
                             hooked.weight.grad().fill_(kNotANumber);
                           }});
  EXPECT_TRUE(hooked_step(accumulator, hooked).stepped);
  EXPECT_TRUE(hooked.weight.isnan().all().item<bool>());
}

}  // namespace
}  // namespace accrue
