// Windows of several losses whose means have separate denominators.
#include <gmock/gmock.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "accrue/accum/accumulator.h"
#include "accrue/accum/accumulator_archive.h"
#include "accum/poison.h"
#include "accum/problem.h"
#include "accum/taken.h"
#include "accum/three_losses.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::kTake;
using testing::same_bits;
using testing::ThreeLosses;
using Ids = std::vector<std::int64_t>;

std::vector<Ids> random_split(Ids ids, std::mt19937_64& random) {
  std::shuffle(ids.begin(), ids.end(), random);
  std::vector<Ids> micros(1);
  for (const std::int64_t id : ids) {
    if (!micros.back().empty() && random() % 3 == 0) micros.emplace_back();
    micros.back().push_back(id);
  }
  return micros;
}

void expect_equal(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected,
                  at::ScalarType dtype, std::int64_t terms) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(testing::close(actual[i], expected[i], dtype, terms));
    if (dtype == at::kDouble) {
      EXPECT_LE(testing::relative_error(actual[i], expected[i]), 1e-12);
    }
  }
}

TEST(AccumulatorLosses, EqualTheFullBatchForAnySplit) {
  std::mt19937_64 random(5);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const ThreeLosses f(seed, dtype);
      const Ids all = f.problem.all();
      Accumulator accumulator(f.problem.parameters);
      accumulator.expect(f.totals(all));
      for (const Ids& micro : random_split(all, random)) accumulator.backward(f.losses(micro));
      const StepReport report = accumulator.step(kTake);
      EXPECT_TRUE(report.stepped);
      expect_equal(f.gradients(), f.reference(all), dtype, f.problem.rows);
      const double loss = f.total(f.losses(all)).item<double>();
      EXPECT_NEAR(report.loss.value(), loss, 1e-5 * std::abs(loss));
    }
}

TEST(AccumulatorLosses, AreToldApartFromMeansOfMicroBatches) {
  const ThreeLosses f(1);
  const Ids first{0, 1, 2, 3, 4, 5, 6, 7, 8}, second{9, 10, 11};
  Accumulator accumulator(f.problem.parameters);
  for (const Ids& micro : {first, second}) accumulator.backward({f.total(f.losses(micro)), 1});
  accumulator.step(kTake);
  const auto expected = f.reference(f.problem.all());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_GT(testing::relative_error(f.gradients()[i], expected[i]), 1e-3);
}

TEST(AccumulatorLosses, GoWithoutALossThatHasNoWeightInTheWindow) {
  ThreeLosses f(2);
  std::fill(f.boxes.begin(), f.boxes.end(), 0);
  Accumulator accumulator(f.problem.parameters);
  accumulator.expect(f.totals({0, 1, 2, 3}));
  accumulator.backward(f.losses({0, 1, 2}));
  accumulator.backward(f.losses({3}));
  accumulator.step(kTake);
  expect_equal(f.gradients(), f.reference({0, 1, 2, 3}), at::kDouble, 32);
}

TEST(AccumulatorLosses, CountAMicroBatchThatHasNoneOfTheFirstLoss) {
  const ThreeLosses f(3);
  const auto swapped = [&](const Ids& samples) {
    std::vector<Loss> losses = f.losses(samples);
    std::swap(losses[0], losses[1]);
    return losses;
  };
  const auto bare = std::ranges::find(f.boxes, 0.0) - f.boxes.begin();
  const auto boxed = std::ranges::find_if(f.boxes, [](double w) { return w > 0; });
  const Ids without{bare}, with{boxed - f.boxes.begin()};
  const Ids both{with[0], without[0]};
  const LossTotals totals = f.totals(both);
  Accumulator accumulator(f.problem.parameters);
  accumulator.expect({{totals.totals()[1], totals.totals()[0], totals.totals()[2]}, {0.25, 1, 3}});
  accumulator.backward(swapped(with));
  accumulator.backward(swapped(without));
  accumulator.step(kTake);
  expect_equal(f.gradients(), f.reference(both), at::kDouble, 32);
}

TEST(AccumulatorLosses, LeaveTheBitsOfAWindowWithoutThePoisonedMicroBatch) {
  for (const bool poisons_loss : {true, false}) {
    ThreeLosses f(4);
    std::fill(f.shares.begin(), f.shares.end(), 2);  // Counts: totals are exact in any order.
    const std::vector<Ids> micros{{0, 1, 2}, {3, 4}, {5, 6, 7}};
    bool poisoned = true;
    const auto losses = [&](const Ids& samples) {
      std::vector<Loss> result = f.losses(samples);
      if (!poisoned || samples != micros[1]) return result;
      const double wrong = std::numeric_limits<double>::quiet_NaN();
      result[2].sum = poisons_loss
                          ? result[2].sum * wrong
                          : result[2].sum + testing::Poison::apply(f.problem.parameters[1].tensor);
      return result;
    };
    AccumulatorOptions options;
    options.replay_losses = [&](const MicroRef& micro) { return losses(micro.sample_ids); };
    Accumulator accumulator(f.problem.parameters, options);
    accumulator.expect(f.totals({0, 1, 2, 3, 4, 5, 6, 7}));
    for (const Ids& micro : micros) accumulator.backward(losses(micro), {}, micro);
    const StepReport report = accumulator.step(kTake);
    EXPECT_EQ(report.quarantined, 1);
    const auto actual = f.gradients();

    poisoned = false;
    accumulator.expect(f.totals({0, 1, 2, 5, 6, 7}));
    for (const Ids& micro : {micros[0], micros[2]}) accumulator.backward(losses(micro), {}, micro);
    const StepReport clean = accumulator.step(kTake);
    EXPECT_TRUE(same_bits(actual, f.gradients()));
    EXPECT_EQ(report.loss, clean.loss);
    EXPECT_EQ(report.weight, clean.weight);
  }
}

TEST(AccumulatorLosses, LoseTheWindowWhereFactorsChangeAndNothingReplays) {
  const ThreeLosses f(4);
  std::string reason;
  AccumulatorOptions options;
  options.on_event = [&](const Event& event) { reason = event.reason; };
  Accumulator accumulator(f.problem.parameters, options);
  accumulator.expect(f.totals({0, 1, 2, 3}));
  accumulator.backward(f.losses({0, 1, 2}));
  std::vector<Loss> bad = f.losses({3});
  bad[0].sum = bad[0].sum * std::nan("");
  accumulator.backward(bad);
  EXPECT_FALSE(accumulator.step(kTake).stepped);
  EXPECT_THAT(reason, HasSubstr("no replay"));
}

TEST(AccumulatorLosses, NeedTheirTotalWeightsFirst) {
  const ThreeLosses f(5);
  Accumulator accumulator(f.problem.parameters);
  EXPECT_THAT(error_of([&] { accumulator.backward(f.losses({0})); }), HasSubstr("expect("));
  EXPECT_FALSE(accumulator.pending());
  accumulator.expect(f.totals({0, 1, 2}));
  EXPECT_THAT(error_of([&] { accumulator.expect(f.totals({0})); }), HasSubstr("no open window"));
  EXPECT_THAT(error_of([&] { accumulator.backward(f.problem.loss({0})); }), HasSubstr("one loss"));
  EXPECT_THAT(error_of([&] { accumulator.backward(std::vector<Loss>(2, f.problem.loss({0}))); }),
              HasSubstr("3, as many"));
  accumulator.backward(f.losses({0, 1}));
  EXPECT_THAT(error_of([&] { accumulator.step(kTake); }), HasSubstr("instead of"));
  accumulator.backward(f.losses({2}));
  EXPECT_TRUE(accumulator.step(kTake).stepped);
  accumulator.backward(f.problem.loss({0}));
  EXPECT_TRUE(accumulator.step(kTake).stepped);
}

TEST(AccumulatorLosses, ContinueFromAFileToTheBit) {
  const ThreeLosses f(6);
  const Ids all = f.problem.all();
  std::stringstream file;
  std::vector<at::Tensor> expected;
  {
    Accumulator accumulator(f.problem.parameters);
    accumulator.expect(f.totals(all));
    accumulator.backward(f.losses({0, 1, 2, 3, 4}));
    torch::serialize::OutputArchive archive;
    write(accumulator.state(), archive);
    archive.save_to(file);
    accumulator.backward(f.losses({5, 6, 7, 8, 9, 10, 11}));
    accumulator.step(kTake);
    expected = f.gradients();
  }
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  Accumulator resumed(f.problem.parameters);
  resumed.load(read_accumulator_state(archive));
  resumed.backward(f.losses({5, 6, 7, 8, 9, 10, 11}));
  resumed.step(kTake);
  EXPECT_TRUE(same_bits(expected, f.gradients()));
}

TEST(AccumulatorLosses, TakeTheGradientsOfOutputsAsPartOfALoss) {
  const ThreeLosses f(7);
  const at::Tensor& weight = f.problem.parameters[0].tensor;
  const at::Tensor hidden = at::linear(f.problem.inputs[0], weight);
  const at::Tensor leaf = hidden.detach().requires_grad_(true);
  Accumulator accumulator(f.problem.parameters);
  EXPECT_THAT(error_of([&] { accumulator.backward_from({hidden}, {leaf}); }),
              HasSubstr("open window"));
  const at::Tensor bias = f.problem.parameters[1].tensor;
  const Loss loss{(leaf + bias).tanh().sum(), 4};
  const at::Tensor upstream = torch::autograd::grad({loss.sum}, {leaf}, {}, true)[0];
  accumulator.backward(loss);
  accumulator.backward_from({hidden}, {upstream});
  const StepReport report = accumulator.step(kTake);
  EXPECT_EQ(report.weight, 4);
  const auto expected = torch::autograd::grad(
      {(at::linear(f.problem.inputs[0], weight) + bias).tanh().sum() / 4}, {weight, bias});
  EXPECT_LE(testing::relative_error(weight.grad(), expected[0]), 1e-14);
  EXPECT_LE(testing::relative_error(bias.grad(), expected[1]), 1e-14);
}

TEST(AccumulatorLosses, GoOnAfterARefusedMicroBatch) {
  const ThreeLosses f(7);
  const Ids all = f.problem.all();
  Accumulator accumulator(f.problem.parameters);
  accumulator.expect(f.totals(all));
  accumulator.backward(f.losses({0, 1, 2}));
  f.problem.parameters[0].tensor.mutable_grad().reset();
  EXPECT_THAT(error_of([&] {
                accumulator.backward(f.losses({3, 4, 5}));
              }),
              HasSubstr("the window goes on"));
  accumulator.backward(f.losses({3, 4, 5}));
  accumulator.backward(f.losses({6, 7, 8, 9, 10, 11}));
  accumulator.step(kTake);
  expect_equal(f.gradients(), f.reference(all), at::kDouble, f.problem.rows);
}

TEST(AccumulatorLosses, AreLostToGradientsOfOutputsThatAreNotFinite) {
  const ThreeLosses f(7);
  const Ids all = f.problem.all();
  Accumulator accumulator(f.problem.parameters, {.accumulate = accum::Accumulation::bf16_kahan});
  accumulator.expect(f.totals(all));
  accumulator.backward(f.losses(all));
  const at::Tensor hidden = at::linear(f.problem.inputs[0], f.problem.parameters[0].tensor);
  const at::Tensor upstream = at::full_like(hidden, std::numeric_limits<double>::quiet_NaN());
  accumulator.backward_from({hidden}, {upstream});
  EXPECT_EQ(accumulator.current_window().ledger().count(MicroStatus::quarantined), 1);
  EXPECT_THAT(accumulator.current_window().lost_reason(), HasSubstr("no replay"));
  EXPECT_FALSE(accumulator.step(kTake).stepped);
}

}  // namespace
}  // namespace accrue
