#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "accum/staged.h"
#include "support/tolerance.h"

namespace accrue::accum {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::StagedWindow;

constexpr std::int64_t kElements = 1'000, kMicroBatches = 64;

std::vector<at::Tensor> contributions(double largest_exponent) {
  at::manual_seed(23);
  std::vector<at::Tensor> result;
  for (std::int64_t i = 0; i < kMicroBatches; ++i)
    result.push_back((at::randn({kElements}, at::kDouble) *
                      at::pow(2, at::rand({}, at::kDouble) * largest_exponent))
                         .to(at::kFloat));
  return result;
}

std::vector<at::Tensor> shuffled(std::vector<at::Tensor> tensors, unsigned seed) {
  std::shuffle(tensors.begin(), tensors.end(), std::mt19937(seed));
  return tensors;
}

struct Outcome {
  at::Tensor sum;
  std::vector<int> units, next_units;
  double norm;
  std::int64_t retries;
};

Outcome run(Accumulation accumulation, const std::vector<at::Tensor>& given) {
  StagedWindow w(accumulation, {kElements});
  w.allow_replay();
  w.window.open(0);
  for (const at::Tensor& contribution : given) w.add(contribution);
  Outcome outcome{.sum = w.saved(), .units = w.buffer->units(), .retries = w.window.retries()};
  outcome.norm = w.window.close()->norm();
  outcome.next_units = w.buffer->units();
  return outcome;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(at::equal(a.sum, b.sum));
  EXPECT_EQ(a.units, b.units);
  EXPECT_EQ(a.next_units, b.next_units);
  EXPECT_EQ(a.norm, b.norm);
}

TEST(Fixed, HasTheSameBitsForAnyOrder) {
  const std::vector<at::Tensor> given = contributions(0);
  const Outcome outcome = run(Accumulation::fixed, given);
  EXPECT_EQ(outcome.retries, 0);
  bool fp32_differs = false;
  for (unsigned seed = 0; seed < 4; ++seed) {
    expect_same(run(Accumulation::fixed, shuffled(given, seed)), outcome);
    fp32_differs |= !at::equal(run(Accumulation::fp32, shuffled(given, seed)).sum,
                               run(Accumulation::fp32, given).sum);
  }
  EXPECT_TRUE(fp32_differs);
}

/// As ranks would: each sums some micro-batches, and the sums are added.
TEST(Fixed, HasTheSameBitsForAnyGrouping) {
  const std::vector<at::Tensor> given = contributions(0);
  const auto grouped = [&](Accumulation accumulation, std::int64_t groups) {
    at::Tensor total;
    for (std::int64_t group = 0; group < groups; ++group) {
      std::vector<at::Tensor> own;
      for (std::int64_t i = group; i < kMicroBatches; i += groups)
        own.push_back(given[static_cast<std::size_t>(i)]);
      const at::Tensor sum = run(accumulation, own).sum;
      total = total.defined() ? total + sum : sum;
    }
    return total;
  };
  for (const std::int64_t groups : {2, 3, 8, 64})
    EXPECT_TRUE(at::equal(grouped(Accumulation::fixed, groups), grouped(Accumulation::fixed, 1)));
  EXPECT_FALSE(at::equal(grouped(Accumulation::fp32, 8), grouped(Accumulation::fp32, 1)));
}

TEST(Fixed, RestartsForLargeContributionsWithTheSameBitsForAnyOrder) {
  const std::vector<at::Tensor> given = contributions(30);
  const Outcome outcome = run(Accumulation::fixed, given);
  EXPECT_GT(outcome.retries, 0);
  EXPECT_GT(outcome.units[0], -40);
  const at::Tensor exact = at::stack(given).to(at::kDouble).sum(0);
  const double unit = std::ldexp(1.0, outcome.units[0]);
  const double error = (outcome.sum.to(at::kDouble) * unit - exact).abs().max().item<double>();
  EXPECT_LE(error, kMicroBatches * unit / 2);
  EXPECT_GT(error, 0);
  for (unsigned seed = 0; seed < 6; ++seed)
    expect_same(run(Accumulation::fixed, shuffled(given, seed)), outcome);
  std::vector<at::Tensor> largest_first = given;
  std::ranges::sort(largest_first, [](const at::Tensor& a, const at::Tensor& b) {
    return a.abs().max().item<float>() > b.abs().max().item<float>();
  });
  expect_same(run(Accumulation::fixed, largest_first), outcome);
  std::ranges::reverse(largest_first);
  expect_same(run(Accumulation::fixed, largest_first), outcome);
}

TEST(Fixed, TakesContributionsBelowTheLimitAndMarksThoseAtIt) {
  StagedWindow w(Accumulation::fixed, {3});
  w.window.open(0);
  w.window.begin({});
  const float limit = 0x1p6F;  // 2^(-40 + 46)
  w.contribute(at::tensor({std::nextafter(limit, 0.0F), -1.0F, 0x1p-40F}));
  EXPECT_FALSE(w.slot().found_too_large);
  const at::Tensor before = w.sum();
  EXPECT_EQ(before[2].item<double>(), 0x1p-40);
  w.contribute(at::tensor({-limit, 2.0F, 0.0F}));
  EXPECT_TRUE(w.slot().found_too_large);
  EXPECT_FALSE(w.slot().found_non_finite);
  EXPECT_EQ(w.sum()[0].item<double>(), before[0].item<double>());
  w.buffer->enlarge_units();
  EXPECT_FALSE(w.slot().found_too_large);
  EXPECT_THAT(w.buffer->units(), ElementsAre(-32));
}

TEST(Fixed, RoundsToTheNearestUnitTiesToEven) {
  StagedWindow w(Accumulation::fixed, {6});
  w.window.open(0);
  const double u = 0x1p-40;
  w.add(at::tensor({0.5 * u, 1.5 * u, 2.5 * u, -0.5 * u, -1.5 * u, 2.6 * u}, at::kFloat));
  EXPECT_TRUE(at::equal(w.saved(), at::tensor({0, 2, 2, 0, -2, 3}, at::kLong)));
}

TEST(Fixed, WorksAtTheEndsOfTheExponentRange) {
  for (const double value : {1e-300, 1e150, 1.0}) {
    StagedWindow w(Accumulation::fixed, {2}, at::kDouble);
    w.allow_replay();
    for (std::int64_t window = 0; window < 2; ++window) {
      w.given.clear();
      w.window.open(window);
      w.add(at::tensor({value, -value / 3}, at::kDouble));
      if (window == 1 && value > 1e-290) {
        EXPECT_TRUE(testing::close(w.sum(), w.given[0], at::kFloat, 1));
      }
      EXPECT_TRUE(w.sum().isfinite().all().item<bool>());
      ASSERT_TRUE(w.window.close());
    }
  }
}

TEST(Fixed, ChoosesTheNextUnitsFromTheClosedSums) {
  StagedWindow w(Accumulation::fixed, {3});
  w.window.open(0);
  w.add(at::tensor({0x1p-20F, 0.0F, -0x1p-22F}));
  EXPECT_THAT(w.buffer->units(), ElementsAre(-40));
  ASSERT_TRUE(w.window.close());
  // 2^-20 is below 2^-19, with 2^10 to spare below 2^46 units.
  EXPECT_THAT(w.buffer->units(), ElementsAre(-19 + 10 - 46));
  EXPECT_EQ(w.sum()[0].item<double>(), 0x1p-20);
  w.window.open(1);
  w.add(at::tensor({0x1p-55F, 0.0F, 0.0F}));
  EXPECT_EQ(w.saved()[0].item<std::int64_t>(), 1);
  w.window.discard();
  EXPECT_THAT(w.buffer->units(), ElementsAre(-55));
  w.window.open(2);
  w.window.begin({});
  w.window.commit(0, 1);
  w.window.close();
  EXPECT_THAT(w.buffer->units(), ElementsAre(-55)) << "an unused slot keeps its unit";
}

TEST(Fixed, ResumesBetweenWindowsFromItsUnits) {
  const auto two_windows = [](bool resumed) {
    auto w = std::make_unique<StagedWindow>(Accumulation::fixed, at::IntArrayRef{kElements});
    w->window.open(0);
    w->add(contributions(0)[0] * 1e-4);
    w->window.close();
    if (resumed) {
      const std::vector<int> units = w->buffer->units();
      w = std::make_unique<StagedWindow>(Accumulation::fixed, at::IntArrayRef{kElements});
      w->buffer->set_units(units);
    }
    w->window.open(1);
    w->add(contributions(0)[1] * 1e-4);
    return w->saved();
  };
  EXPECT_TRUE(at::equal(two_windows(true), two_windows(false)));
  EXPECT_FALSE(
      at::equal(two_windows(true), run(Accumulation::fixed, {contributions(0)[1] * 1e-4}).sum));
}

/// The first window leaves units other than those of a new buffer; the second is saved in its
/// middle, closed or not.
TEST(Fixed, ResumesFromAWindowsStateInItsUnits) {
  const std::vector<at::Tensor> given = contributions(0);
  const auto summed = [&](bool resumed, bool open, bool with_units = true) {
    const auto make = [] {
      return std::make_unique<StagedWindow>(Accumulation::fixed, at::IntArrayRef{kElements});
    };
    auto w = make();
    w->window.open(0);
    w->add(given[0] * 1e-4);
    w->window.close();
    if (open) {
      w->window.open(1);
      w->add(given[1] * 1e-4);
    }
    if (resumed) {
      WindowState state = w->window.state();
      if (!with_units) state.units = make()->buffer->units();
      w = make();
      w->window.load(state);
    }
    if (!open) w->window.open(1);
    w->add(given[2] * 1e-4);
    return w->sum();
  };
  for (const bool open : {true, false}) {
    EXPECT_TRUE(at::equal(summed(true, open), summed(false, open))) << open;
    EXPECT_FALSE(at::equal(summed(true, open, false), summed(false, open))) << open;
  }
}

TEST(Fixed, RefusesUnitsThatDoNotFit) {
  StagedWindow w(Accumulation::fixed, {3});
  EXPECT_THAT(error_of([&] { w.buffer->set_units({1, 2}); }), HasSubstr("1 exponents"));
  w.window.open(0);
  EXPECT_THAT(error_of([&] { w.buffer->set_units({1}); }), HasSubstr("no open window"));
}

TEST(Fixed, RefusesMoreContributionsThanASumHolds) {
  StagedWindow w(Accumulation::fixed, {1});
  w.window.open(0);
  w.window.begin({});
  w.slot().contributions = 65'535;
  w.contribute(at::ones({1}));
  EXPECT_THAT(error_of([&] { w.contribute(at::ones({1})); }), HasSubstr("65536"));
}

}  // namespace
}  // namespace accrue::accum
