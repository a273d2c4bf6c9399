#include "accrue/accum/accumulator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "accum/problem.h"
#include "accum/taken.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using ::testing::AllOf;
using testing::copies;
using testing::error_of;
using testing::gradients_of;
using ::testing::HasSubstr;
using testing::kTake;
using testing::make_problem;
using testing::nan_loss;
using testing::Problem;
using testing::same_bits;
using Ids = std::vector<std::int64_t>;

/// Cuts a shuffled batch at random places.
std::vector<Ids> random_split(const Problem& problem, std::mt19937_64& random) {
  Ids ids = problem.all();
  std::shuffle(ids.begin(), ids.end(), random);
  std::vector<Ids> micros(1);
  for (const std::int64_t id : ids) {
    if (!micros.back().empty() && random() % 3 == 0) micros.emplace_back();
    micros.back().push_back(id);
  }
  return micros;
}

TEST(Accumulator, EqualsTheFullBatchForAnySplit) {
  std::mt19937_64 random(1);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const Problem problem = make_problem(seed, dtype);
      const auto expected = problem.reference();
      Accumulator accumulator(problem.parameters, {.batch = Tokens{problem.rows}});
      for (const Ids& micro : random_split(problem, random)) {
        EXPECT_FALSE(accumulator.full());
        accumulator.backward(problem.loss(micro));
      }
      ASSERT_TRUE(accumulator.full());
      const StepReport report = accumulator.step(kTake);
      EXPECT_EQ(report.weight, static_cast<double>(problem.rows));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(
            testing::close(problem.parameters[i].tensor.grad(), expected[i], dtype, problem.rows));
        if (dtype == at::kDouble) {
          EXPECT_LE(testing::relative_error(problem.parameters[i].tensor.grad(), expected[i]),
                    1e-12);
        }
      }
    }
}

TEST(Accumulator, ComparatorSeesAMeanOfMeans) {
  const Problem problem = make_problem(2, at::kFloat);
  const auto expected = problem.reference();
  Accumulator accumulator(problem.parameters);
  for (const Ids& micro : {Ids{0}, Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}) {
    const Loss loss = problem.loss(micro);
    accumulator.backward({loss.sum / loss.weight, 1});
  }
  accumulator.step(kTake);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_FALSE(
        testing::close(problem.parameters[i].tensor.grad(), expected[i], at::kFloat, problem.rows));
}

TEST(Accumulator, CountsTheBatchInItsUnit) {
  const Problem problem = make_problem(3, at::kFloat);
  Accumulator by_samples(problem.parameters, {.batch = Samples{3}});
  by_samples.backward(problem.loss({0, 1}), Samples{2});
  EXPECT_FALSE(by_samples.full());
  EXPECT_THAT(error_of([&] { by_samples.backward(problem.loss({2}), Tokens{1}); }),
              HasSubstr("unit"));
  by_samples.backward(problem.loss({2}), Samples{1});
  EXPECT_TRUE(by_samples.full());
  EXPECT_EQ(by_samples.step(kTake).samples, 3);
  by_samples.backward(problem.loss({0, 1}), {}, {0, 1});
  EXPECT_FALSE(by_samples.full()) << "two sample ids";
  by_samples.backward(problem.loss({2}), {}, {2});
  EXPECT_TRUE(by_samples.full());
  EXPECT_EQ(by_samples.step(kTake).samples, 6);

  Accumulator by_count(problem.parameters, {.micro_batches = 2});
  by_count.backward(problem.loss({0, 1}));
  EXPECT_FALSE(by_count.full());
  by_count.backward(problem.loss({2}));
  EXPECT_TRUE(by_count.full());
  by_count.step(kTake);
  EXPECT_FALSE(by_count.full());

  Accumulator by_loop(problem.parameters);
  by_loop.backward(problem.loss(problem.all()));
  EXPECT_FALSE(by_loop.full());
}

TEST(Accumulator, ReportsWhatItDid) {
  const Problem problem = make_problem(4, at::kDouble);
  Accumulator accumulator(problem.parameters, {.batch = Tokens{problem.rows}});
  for (int round = 1; round <= 2; ++round) {
    for (std::int64_t i = 0; i < 12; ++i) accumulator.backward(problem.loss({i}));
    const StepReport report = accumulator.step(kTake);
    EXPECT_EQ(report.step, round);
    EXPECT_TRUE(report.stepped);
    EXPECT_EQ(report.micro_batches, 12);
    EXPECT_EQ(report.tokens, round * problem.rows);
    EXPECT_EQ(report.batch_tokens, problem.rows);
    const Loss loss = problem.loss(problem.all());
    EXPECT_NEAR(report.loss.value(), loss.sum.item<double>() / loss.weight, 1e-10);
    double squares = 0;
    for (const at::Tensor& gradient : problem.reference())
      squares += gradient.square().sum().item<double>();
    EXPECT_NEAR(report.grad_norm.value(), std::sqrt(squares), 1e-10 * std::sqrt(squares));
  }
}

/// A weight may count tokens: taken as samples, it would end a window far too early.
TEST(Accumulator, TakesNoWeightForACountOfSamples) {
  const Problem problem = make_problem(3, at::kFloat);
  Accumulator by_samples(problem.parameters, {.batch = Samples{64}});
  const auto tokens = [&] { return Loss{.sum = problem.loss({0}).sum, .weight = 100}; };
  EXPECT_THAT(error_of([&] { by_samples.backward(tokens()); }), HasSubstr("Samples(n)"));
  EXPECT_THAT(error_of([&] { by_samples.window().backward(tokens()); }), HasSubstr("Samples(n)"));
  by_samples.expect({{100, 100}, {1, 1}});
  EXPECT_THAT(error_of([&] {
                by_samples.backward(std::vector{tokens(), tokens()});
              }),
              HasSubstr("Samples(n)"));
  by_samples.discard();
  by_samples.backward(tokens(), Samples{1});
  EXPECT_FALSE(by_samples.full());
  EXPECT_EQ(by_samples.finish(kTake).samples, 1);
  Accumulator by_tokens(problem.parameters, {.batch = Tokens{64}});
  by_tokens.backward(tokens());
  EXPECT_TRUE(by_tokens.full()) << "tokens are what a weight counts";
}

/// In the order of a Trainer: the hook, then clipping, so that the hook's output is bounded, too.
TEST(Accumulator, ShowsTheMeanToTheHookAndClipsWhatItLeaves) {
  const Problem problem = make_problem(5, at::kFloat);
  const auto norm_of = [&] {
    double squares = 0;
    for (const auto& p : problem.parameters)
      squares += p.tensor.grad().square().sum().item<double>();
    return std::sqrt(squares);
  };
  double seen = 0;
  Accumulator accumulator(
      problem.parameters,
      {.clip_norm = 0.5, .on_mean_gradient = [&](accum::MeanGradient& gradient) {
         EXPECT_EQ(gradient.scale(), 1);
         EXPECT_EQ(gradient.clipping(), 1);
         problem.parameters[1].tensor.grad().zero_();
         problem.parameters[0].tensor.grad().mul_(7);
         seen = norm_of();
       }});
  accumulator.backward(problem.loss({0, 1, 2}));
  accumulator.backward(problem.loss({3}));
  const StepReport report =
      accumulator.step([](accum::MeanGradient&& gradient) { gradient.materialize(); });
  EXPECT_GT(seen, 0.5);
  EXPECT_NEAR(report.grad_norm.value(), seen, 1e-6 * seen) << "what the hook left";
  EXPECT_NEAR(norm_of(), 0.5, 1e-6);
  EXPECT_EQ(problem.parameters[1].tensor.grad().abs().sum().item<double>(), 0);
}

/// A loss divided by the batch's positives, of which only the last micro-batch has any: whatever
/// the split, the gradient is that of all terms over all positives.
TEST(Accumulator, AddsSumsThatHaveNoWeightOfTheirOwn) {
  constexpr double positives = 3;
  const Problem problem = make_problem(6, at::kDouble);
  const Ids samples = problem.all();
  std::vector<at::Tensor> expected = problem.reference();  // over the weight of all terms
  for (at::Tensor& gradient : expected) gradient *= problem.loss(samples).weight / positives;
  const auto fill = [&](Accumulator& accumulator) {
    for (const std::int64_t sample : samples)
      accumulator.backward({problem.loss({sample}).sum, sample == samples.back() ? positives : 0},
                           {}, {sample});
  };
  const auto expect_mean = [&](Accumulator& accumulator) {
    EXPECT_EQ(accumulator.step(kTake).weight, positives);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(testing::relative_error(gradients_of(problem)[i], expected[i]), 1e-12);
  };

  Accumulator plain(problem.parameters);
  fill(plain);
  expect_mean(plain);

  Accumulator with_empty(problem.parameters);
  with_empty.backward({at::zeros({}, at::kDouble), 0});  // depends on nothing
  fill(with_empty);
  expect_mean(with_empty);

  // One without a finite gradient is left out, and the others are added again.
  const auto bad = [&] {
    return Loss{.sum = (problem.parameters[0].tensor * 0).sum().sqrt(), .weight = 0};
  };
  std::int64_t replayed = 0;
  Accumulator replaying(problem.parameters, {.replay = [&](const MicroRef& micro) {
                          ++replayed;
                          if (micro.sample_ids.empty()) return bad();
                          return Loss{problem.loss(micro.sample_ids).sum, micro.weight};
                        }});
  fill(replaying);
  replaying.backward(bad());
  expect_mean(replaying);
  EXPECT_GE(replayed, std::ssize(samples));
}

TEST(Accumulator, TakesNoStepForNoWeight) {
  const Problem problem = make_problem(6, at::kFloat);
  Accumulator accumulator(problem.parameters);
  accumulator.backward({problem.loss({0}).sum * 0, 0});
  EXPECT_FALSE(accumulator.step(kTake).stepped);
  EXPECT_FALSE(accumulator.finish(kTake).stepped);
  EXPECT_THAT(error_of([&] { accumulator.step(kTake); }), HasSubstr("backward()"));
}

TEST(Accumulator, FinishesAShortWindowWithItsOwnWeight) {
  const Problem problem = make_problem(8, at::kDouble);
  Accumulator accumulator(problem.parameters, {.batch = Tokens{1'000'000}});
  for (std::int64_t i = 0; i < 12; ++i) accumulator.backward(problem.loss({i}));
  EXPECT_FALSE(accumulator.full());
  EXPECT_TRUE(accumulator.finish(kTake).stepped);
  const auto expected = problem.reference();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(testing::relative_error(gradients_of(problem)[i], expected[i]), 1e-12);
}

TEST(Accumulator, RefusesLossesItCannotUse) {
  const Problem problem = make_problem(9, at::kFloat);
  Accumulator accumulator(problem.parameters);
  EXPECT_THAT(error_of([&] { accumulator.backward({at::ones({3}), 3}); }), HasSubstr("3 elements"));
  EXPECT_THAT(error_of([&] { accumulator.backward({at::Tensor(), 3}); }), HasSubstr("undefined"));
  EXPECT_THAT(error_of([&] {
                accumulator.backward({problem.loss({0}).sum, -1});
              }),
              HasSubstr("weight >= 0"));
  EXPECT_THAT(error_of([&] {
                accumulator.backward({problem.loss({0}).sum.detach(), 1});
              }),
              HasSubstr("requires no gradient"));
}

TEST(Accumulator, RefusesContradictingOptions) {
  const Problem problem = make_problem(9, at::kFloat);
  const auto make = [&](AccumulatorOptions options) {
    return error_of([&] { Accumulator(problem.parameters, options); });
  };
  EXPECT_THAT(make({.batch = Tokens{8}, .micro_batches = 2}), HasSubstr("both"));
  EXPECT_THAT(make({.batch = Samples{0}}), HasSubstr("at least 1"));
  EXPECT_THAT(make({.batch = Tokens{-8}}), HasSubstr("at least 1 and at most 2^53, received -8"));
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(make({.batch = Tokens{kMost}}), HasSubstr("received " + std::to_string(kMost)));
  for (const std::int64_t count : {std::int64_t{-2}, kMost})
    EXPECT_THAT(make({.micro_batches = count}),
                AllOf(HasSubstr("expected micro_batches of at least 1"),
                      HasSubstr("received " + std::to_string(count) + "; try micro_batches = 8")));
  EXPECT_THAT(make({.max_quarantined = -1}), HasSubstr("max_quarantined >= 0, received -1"));
  EXPECT_THAT(make({.clip_norm = -1}), HasSubstr("clip_norm"));
  EXPECT_THAT(error_of([] { Accumulator(std::vector<at::Tensor>{at::ones({2})}); }),
              HasSubstr("requires a gradient"));
}

TEST(Accumulator, DiscardsAScopeThatIsLeftWithoutAStep) {
  const Problem problem = make_problem(11, at::kFloat);
  Accumulator accumulator(problem.parameters);
  try {
    auto window = accumulator.window();
    window.backward(problem.loss({0}));
    throw std::runtime_error("the loader failed");
  } catch (const std::runtime_error&) {
    EXPECT_FALSE(accumulator.pending());
    EXPECT_FALSE(problem.parameters[0].tensor.grad().defined());
  }
  {
    auto window = accumulator.window();
    window.backward(problem.loss(problem.all()));
    EXPECT_EQ(window.step(kTake).weight, static_cast<double>(problem.rows));
  }
  EXPECT_TRUE(problem.parameters[0].tensor.grad().defined());
  accumulator.backward(problem.loss({0}));
  EXPECT_THAT(error_of([&] { accumulator.window(); }), HasSubstr("finish()"));
}

TEST(Accumulator, ContinuesFromItsStateToTheBit) {
  const Problem problem = make_problem(12, at::kFloat);
  const AccumulatorOptions options{.batch = Tokens{problem.rows}};
  std::vector<at::Tensor> expected;
  AccumulatorState state;
  {
    Accumulator accumulator(problem.parameters, options);
    accumulator.backward(problem.loss(problem.all()));
    accumulator.step(kTake);
    accumulator.backward(problem.loss({0, 1, 2, 3, 4}));
    accumulator.backward(nan_loss(problem));
    state = accumulator.state();
    accumulator.backward(problem.loss({5, 6, 7, 8, 9, 10, 11}));
    accumulator.step(kTake);
    expected = gradients_of(problem);
  }
  Accumulator resumed(problem.parameters, options);
  resumed.load(state);
  EXPECT_FALSE(resumed.full());
  resumed.backward(problem.loss({5, 6, 7, 8, 9, 10, 11}));
  ASSERT_TRUE(resumed.full());
  const StepReport report = resumed.step(kTake);
  EXPECT_TRUE(same_bits(expected, gradients_of(problem)));
  EXPECT_EQ(report.step, 2);
  EXPECT_EQ(report.tokens, 2 * problem.rows);
  EXPECT_EQ(report.quarantined, 1);
}

TEST(Accumulator, KeepsTwoModelsApart) {
  // The discriminator's window is open while the generator differentiates through it, as in a GAN.
  at::manual_seed(13);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor g = at::randn({3, 3}, options).requires_grad_(true);
  const at::Tensor d = at::randn({1, 3}, options).requires_grad_(true);
  const at::Tensor noise = at::randn({6, 3}, options), real = at::randn({6, 3}, options);
  const auto generator_loss = [&](std::int64_t from, std::int64_t to) {
    const at::Tensor fake = at::tanh(at::linear(noise.slice(0, from, to), g));
    return Loss{at::softplus(-at::linear(fake, d)).sum(), static_cast<double>(to - from)};
  };
  const auto discriminator_loss = [&](std::int64_t from, std::int64_t to) {
    const at::Tensor fake = at::tanh(at::linear(noise.slice(0, from, to), g)).detach();
    return Loss{
        (at::softplus(at::linear(fake, d)) + at::softplus(-at::linear(real.slice(0, from, to), d)))
            .sum(),
        static_cast<double>(to - from)};
  };
  const at::Tensor expected_g = torch::autograd::grad({generator_loss(0, 6).sum / 6}, {g})[0];
  const at::Tensor expected_d = torch::autograd::grad({discriminator_loss(0, 6).sum / 6}, {d})[0];
  Accumulator acc_g(std::vector<at::Tensor>{g}), acc_d(std::vector<at::Tensor>{d});
  for (const auto& [from, to] : std::vector<std::pair<int, int>>{{0, 1}, {1, 4}, {4, 6}}) {
    acc_d.backward(discriminator_loss(from, to));
    acc_g.backward(generator_loss(from, to));
  }
  acc_d.step(kTake);
  acc_g.step(kTake);
  EXPECT_LE(testing::relative_error(g.grad(), expected_g), 1e-12);
  EXPECT_LE(testing::relative_error(d.grad(), expected_d), 1e-12);
}

TEST(Accumulator, LeavesAParameterAloneThatIsFrozenLater) {
  const Problem problem = make_problem(14, at::kFloat);
  Accumulator accumulator(problem.parameters);
  accumulator.backward(problem.loss({0}));
  accumulator.step(kTake);
  problem.parameters[0].tensor.set_requires_grad(false);
  accumulator.backward(problem.loss({0}));
  EXPECT_TRUE(accumulator.step(kTake).stepped);
  EXPECT_FALSE(problem.parameters[0].tensor.grad().defined());
  EXPECT_TRUE(problem.parameters[1].tensor.grad().defined());
}

TEST(Accumulator, RefusesParametersOfAnotherOpenWindow) {
  const Problem problem = make_problem(14, at::kFloat);
  Accumulator first(problem.parameters), second(problem.parameters);
  first.backward(problem.loss({0}));
  EXPECT_THAT(error_of([&] { second.backward(problem.loss({0})); }), HasSubstr("no open window"));
  EXPECT_THAT(error_of([&] { Accumulator third(problem.parameters); }),
              HasSubstr("no open window"));
  first.discard();
  second.backward(problem.loss({0}));
}

}  // namespace
}  // namespace accrue
