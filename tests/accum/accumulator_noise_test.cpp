#include <gmock/gmock.h>
#include <torch/serialize/archive.h>

#include <sstream>

#include "accrue/accum/accumulator.h"
#include "accrue/accum/accumulator_archive.h"
#include "accum/gradient_norms.h"
#include "accum/problem.h"
#include "accum/staged.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr std::int64_t kElements = 300;
constexpr double kSpread = 2, kDistance = 0.5;

/// Samples x ~ N(0, kSpread^2) pull at p by |p - x|^2 / 2: the noise scale is (kSpread /
/// kDistance)^2.
Loss pull_of(const at::Tensor& p, std::int64_t samples) {
  const at::Tensor x = at::randn({samples, kElements}) * kSpread;
  return {((p - x).square() / 2).sum(), static_cast<double>(samples)};
}

at::Tensor pulled() { return at::full({kElements}, kDistance).requires_grad_(true); }

void drop_gradient(accum::MeanGradient&&) {}

StepReport noisy_window(Accumulator& acc, const at::Tensor& p,
                        std::initializer_list<std::int64_t> parts) {
  for (const std::int64_t samples : parts) acc.backward(pull_of(p, samples));
  return acc.step(drop_gradient);
}

TEST(AccumulatorNoise, ComesToTheClosedForm) {
  at::manual_seed(4);
  const at::Tensor p = pulled();
  Accumulator acc(std::vector{p}, {.measure_noise = true});
  StepReport report;
  for (int i = 0; i < 150; ++i) report = noisy_window(acc, p, {2, 3, 7});
  constexpr double truth = kSpread * kSpread / (kDistance * kDistance);
  ASSERT_TRUE(report.noise_scale && report.noise_scale_high && report.gradient_variance);
  EXPECT_NEAR(*report.noise_scale / truth, 1, 0.1);
  EXPECT_LT(*report.noise_scale_low, truth);
  EXPECT_GT(*report.noise_scale_high, truth);
  EXPECT_NEAR(*report.gradient_variance / (kSpread * kSpread * kElements), 1, 0.05);
}

TEST(AccumulatorNoise, IsNotToldWhereItIsNotAskedForOrCannotBeSeen) {
  const at::Tensor p = pulled();
  Accumulator silent(std::vector{p}, {});
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(noisy_window(silent, p, {2, 2}).gradient_variance);
  Accumulator single(std::vector{p}, {.measure_noise = true});
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(noisy_window(single, p, {4}).gradient_variance);
}

AccumulatorState written_and_read(const AccumulatorState& state) {
  torch::serialize::OutputArchive out;
  write(state, out);
  std::stringstream file;
  out.save_to(file);
  torch::serialize::InputArchive in;
  in.load_from(file);
  return read_accumulator_state(in);
}

/// Also in the middle of a window, whose first micro-batch was seen before.
TEST(AccumulatorNoise, GoesOnFromAnArchive) {
  for (const bool is_in_the_middle : {false, true}) {
    at::manual_seed(4);
    const at::Tensor p = pulled(), q = pulled();
    Accumulator acc(std::vector{p}, {.measure_noise = true});
    for (int i = 0; i < 10; ++i) noisy_window(acc, p, {2, 3});
    if (is_in_the_middle) acc.backward(pull_of(p, 2));
    Accumulator other(std::vector{q}, {.measure_noise = true});
    other.load(written_and_read(acc.state()));
    at::manual_seed(5);
    const StepReport straight = noisy_window(acc, p, {4, 3});
    at::manual_seed(5);
    const StepReport resumed = noisy_window(other, q, {4, 3});
    EXPECT_EQ(straight.gradient_variance, resumed.gradient_variance) << is_in_the_middle;
    EXPECT_EQ(straight.noise_scale_low, resumed.noise_scale_low) << is_in_the_middle;
  }
}

TEST(AccumulatorBatch, MayChangeBetweenWindows) {
  const at::Tensor p = pulled();
  Accumulator acc(std::vector{p}, {.batch = Samples{4}});
  acc.backward(pull_of(p, 2), Samples{2});
  EXPECT_FALSE(acc.full());
  EXPECT_THAT(error_of([&] { acc.set_batch(Samples{2}); }), HasSubstr("no open window"));
  acc.backward(pull_of(p, 2), Samples{2});
  EXPECT_TRUE(acc.full());
  acc.step(drop_gradient);
  acc.set_batch(Samples{2});
  acc.backward(pull_of(p, 2), Samples{2});
  EXPECT_TRUE(acc.full());
  acc.discard();
  EXPECT_THAT(error_of([&] { acc.set_batch(Tokens{2}); }), HasSubstr("unit"));
  EXPECT_THAT(error_of([&] { acc.set_batch(Samples{0}); }), HasSubstr("at least 1"));
  EXPECT_THAT(error_of([&] { acc.share(Samples{-4}); }), HasSubstr("received -4; try share("));
}

TEST(GradientNorms, AreThoseOfTheSumsInDouble) {
  at::manual_seed(8);
  const at::Tensor contribution = at::randn({70'003});
  for (const accum::Accumulation accumulation : testing::kStaged) {
    testing::StagedWindow w(accumulation, contribution.sizes());
    w.window.open(0);
    w.add(contribution);
    const at::Tensor sum = w.sum();
    const double square = sum.square().sum().item<double>();
    const auto norms = accum::squared_norms(*w.window.buffer());
    ASSERT_EQ(norms.size(), 1U);
    EXPECT_NEAR(norms[0], square, 1e-6 * square) << to_string(accumulation);
    const double absolute = sum.abs().sum().item<double>();
    EXPECT_NEAR(accum::absolute_sum(*w.window.buffer()), absolute, 1e-6 * absolute);
    w.window.discard();
  }
}

}  // namespace
}  // namespace accrue
