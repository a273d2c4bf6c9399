#include <gmock/gmock.h>

#include "accrue/accum/accumulation.h"
#include "accrue/accum/accumulator.h"
#include "accum/staged.h"
#include "support/tolerance.h"

namespace accrue::accum {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::kStaged;
using testing::same_bits;
using testing::StagedWindow;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Accumulation, IsSpelledAsInTheConfig) {
  EXPECT_THAT(
      accumulation_words.words(),
      ::testing::ElementsAre("fp32", "fp64", "bf16", "bf16-kahan", "bf16-stochastic", "fixed"));
  EXPECT_EQ(to_string(Accumulation::bf16_kahan), "bf16-kahan");
}

TEST(GradientBuffer, KeepsEachPrecisionInItsOwnDtype) {
  const auto dtype = [](Accumulation accumulation, at::ScalarType parameter) {
    const StagedWindow w(accumulation, {3}, parameter);
    EXPECT_EQ(w.buffer->is_staged(), !grad_can_view_slot(w.buffer->entries()[0]));
    return w.slot().main.scalar_type();
  };
  EXPECT_EQ(dtype(Accumulation::fp32, at::kFloat), at::kFloat);
  EXPECT_EQ(dtype(Accumulation::fp32, at::kDouble), at::kDouble);
  EXPECT_EQ(dtype(Accumulation::fp64, at::kFloat), at::kDouble);
  EXPECT_EQ(dtype(Accumulation::fp64, at::kDouble), at::kDouble);
  EXPECT_EQ(dtype(Accumulation::bf16_stochastic, at::kFloat), at::kBFloat16);
  EXPECT_EQ(dtype(Accumulation::bf16, at::kBFloat16), at::kBFloat16);
  EXPECT_EQ(dtype(Accumulation::fixed, at::kDouble), at::kLong);
}

TEST(GradientBuffer, CountsCompensationsAndOneScratchForAllSlots) {
  const NamedParameters parameters{{"a", at::ones({32, 4}).requires_grad_(true)},
                                   {"b", at::ones({32}).requires_grad_(true)}};
  const auto bytes = [&](Accumulation a) { return GradientBuffer(parameters, a).bytes(); };
  EXPECT_EQ(bytes(Accumulation::fp32), 160 * 4);
  EXPECT_EQ(bytes(Accumulation::fp64), 160 * 8 + 128 * 4);
  EXPECT_EQ(bytes(Accumulation::bf16), 160 * 2 + 128 * 4);
  EXPECT_EQ(bytes(Accumulation::bf16_kahan), 160 * 4 + 128 * 4);
  EXPECT_EQ(bytes(Accumulation::fixed), 160 * 8 + 128 * 4);
}

/// Small integers are exact in every precision, so every sum is.
class EveryStaged : public ::testing::TestWithParam<std::tuple<Accumulation, at::ScalarType>> {
 protected:
  /// More elements than a block, and a tail that no vector divides.
  static constexpr std::int64_t kRows = 3, kColumns = 1'237;
  static at::Tensor integers(std::uint64_t seed) {
    at::manual_seed(seed);
    return at::randint(-20, 21, {kRows, kColumns}).to(at::kDouble);
  }
  Accumulation accumulation() const { return std::get<0>(GetParam()); }
  at::ScalarType dtype() const { return std::get<1>(GetParam()); }
};
std::vector<std::tuple<Accumulation, at::ScalarType>> staged_of_each_dtype() {
  std::vector<std::tuple<Accumulation, at::ScalarType>> all;
  for (const Accumulation accumulation : kStaged)
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16})
      if (accumulation != Accumulation::fp64 || dtype != at::kDouble)  // That one is direct.
        all.emplace_back(accumulation, dtype);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Precisions, EveryStaged, ::testing::ValuesIn(staged_of_each_dtype()),
                         [](const auto& precision) {
                           std::string name(to_string(std::get<0>(precision.param)));
                           std::ranges::replace(name, '-', '_');
                           return name + "_of_" + c10::toString(std::get<1>(precision.param));
                         });

TEST_P(EveryStaged, SumsWhatKernelsAndAutogradContribute) {
  StagedWindow w(accumulation(), {kRows, kColumns}, dtype());
  w.window.open(0);
  at::Tensor expected = at::zeros({kRows, kColumns}, at::kDouble);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const at::Tensor by_kernel = integers(2 * i), by_autograd = integers(2 * i + 1);
    w.window.begin({});
    w.contribute(by_kernel);
    // Not contiguous when it arrives.
    (w.parameter.t() * by_autograd.to(dtype()).t().contiguous()).sum().backward();
    EXPECT_FALSE(w.parameter.grad().defined());
    w.window.commit(0, 1);
    expected += by_kernel + by_autograd;
  }
  EXPECT_FALSE(w.parameter.grad().defined());
  EXPECT_TRUE(at::equal(w.sum(), expected));
  EXPECT_FALSE(at::equal(w.sum(), expected + 1));
  const double norm = expected.norm().item<double>() / 3;
  std::optional<MeanGradient> gradient = w.window.close();
  ASSERT_TRUE(gradient);
  EXPECT_NEAR(gradient->norm(), norm, 1e-12 * norm);
  gradient->clip(norm / 2);
  gradient->materialize();
  EXPECT_EQ(gradient->scale(), 1);
  EXPECT_NEAR(gradient->norm(), norm / 2, 1e-2 * norm);
  ASSERT_EQ(w.parameter.grad().scalar_type(), dtype());
  EXPECT_TRUE(testing::close(w.parameter.grad(), expected / 6, dtype(), 1));
}

TEST_P(EveryStaged, StartsEachWindowFreshAndLeavesUnusedSlotsZero) {
  StagedWindow w(accumulation(), {kRows, kColumns}, dtype());
  for (std::int64_t window = 0; window < 2; ++window) {
    w.window.open(window);
    w.add(integers(static_cast<std::uint64_t>(window)));
    ASSERT_TRUE(w.window.close());
    EXPECT_TRUE(at::equal(w.sum(), integers(static_cast<std::uint64_t>(window))));
  }
  w.window.open(2);
  w.window.begin({});
  w.window.commit(0, 1);
  std::optional<MeanGradient> gradient = w.window.close();
  EXPECT_EQ(gradient->norm(), 0);
  gradient->materialize();
  EXPECT_FALSE(w.parameter.grad().defined());
  EXPECT_EQ(w.sum().abs().sum().item<double>(), 0);
}

TEST_P(EveryStaged, LeavesNonFiniteElementsOutAndSaysSo) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()})
    for (const std::int64_t place : {std::int64_t{0}, kRows * kColumns - 1}) {
      StagedWindow w(accumulation(), {kRows, kColumns}, dtype());
      w.window.open(0);
      w.window.begin({});
      w.contribute(integers(1));
      EXPECT_FALSE(w.slot().found_non_finite);
      at::Tensor contribution = integers(2);
      contribution.view(-1)[place] = bad;
      w.contribute(contribution);
      EXPECT_TRUE(w.slot().found_non_finite);
      EXPECT_FALSE(w.slot().found_too_large);
      contribution.view(-1)[place] = 0;
      EXPECT_TRUE(at::equal(w.sum(), integers(1) + contribution));
    }
}

TEST_P(EveryStaged, QuarantinesANonFiniteGradientAsIfItHadNeverBeenThere) {
  const auto run = [&](bool with_bad) {
    StagedWindow w(accumulation(), {kRows, kColumns}, dtype());
    w.allow_replay();
    w.window.open(5);
    at::manual_seed(3);
    for (int i = 0; i < 4; ++i) {
      const at::Tensor contribution = at::randn({kRows, kColumns}, at::kDouble);
      w.add(contribution);
      if (!with_bad || i != 2) continue;
      EXPECT_EQ(w.add(at::full({kRows, kColumns}, kInfinity)), MicroStatus::quarantined);
    }
    return w.saved();
  };
  EXPECT_TRUE(at::equal(run(true), run(false)));
}

TEST_P(EveryStaged, GoesOnFromItsStateToTheBit) {
  const auto run = [&](bool interrupted) {
    auto w =
        std::make_unique<StagedWindow>(accumulation(), at::IntArrayRef{kRows, kColumns}, dtype());
    w->window.open(4);
    at::manual_seed(4);
    for (int i = 0; i < 6; ++i) {
      const at::Tensor contribution = at::randn({kRows, kColumns}, at::kDouble);
      if (interrupted && i == 3) {
        const WindowState state = w->window.state();
        w = std::make_unique<StagedWindow>(accumulation(), at::IntArrayRef{kRows, kColumns},
                                           dtype());
        w->window.load(state);
      }
      w->add(contribution);
    }
    return w->saved();
  };
  EXPECT_TRUE(at::equal(run(true), run(false)));
}

TEST(StagedSum, RefusesToLoadSumsOfAnotherPrecision) {
  StagedWindow bf16(Accumulation::bf16, {3}), kahan(Accumulation::bf16_kahan, {3});
  bf16.window.open(0);
  bf16.add(at::ones({3}));
  EXPECT_THAT(error_of([&] { kahan.window.load(bf16.window.state()); }), HasSubstr("'w'"));
  EXPECT_FALSE(kahan.window.is_open());
}

TEST(StagedSum, RefusesASecondContributionBeforeTheFirstIsDone) {
  const NamedParameters parameters{{"a", at::ones({4}).requires_grad_(true)},
                                   {"b", at::ones({2}).requires_grad_(true)}};
  const GradientBuffer buffer(parameters, Accumulation::fp64);
  kernels::GradSlot &a = *buffer.entries()[0].slot, &b = *buffer.entries()[1].slot;
  EXPECT_THAT(error_of([&] { a.done(); }), HasSubstr("contribute()"));
  {
    const auto held = a.contribute();
    EXPECT_THAT(error_of([&] { b.contribute(); }), HasSubstr("done()"));
  }
  // A kernel that failed half-way released it.
  b.contribute().into.fill_(3);
  b.done();
  EXPECT_EQ(b.main[1].item<double>(), 3);
}

TEST(StagedSum, WorksInAnExistingLoopWithAHook) {
  const testing::Problem problem = testing::make_problem(3, at::kFloat);
  for (const Accumulation accumulation : {Accumulation::fp64, Accumulation::fixed}) {
    AccumulatorOptions options{.accumulate = accumulation};
    options.on_mean_gradient = [&](MeanGradient& gradient) {
      problem.parameters[0].tensor.mutable_grad().mul_(2);
      gradient.changed();
    };
    Accumulator accumulator(problem.parameters, options);
    for (const std::int64_t sample : problem.all()) accumulator.backward(problem.loss({sample}));
    const std::vector<at::Tensor> expected = problem.reference();
    accumulator.step([&](MeanGradient&& gradient) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const at::Tensor changed = i == 0 ? 2 * expected[i] : expected[i];
        EXPECT_TRUE(testing::close(gradient.source(i).tensor, changed, at::kFloat, problem.rows));
      }
    });
  }
}

}  // namespace
}  // namespace accrue::accum
