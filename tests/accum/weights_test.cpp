// Weights given by users: real numbers, zeros, whole micro-batches of weight 0.
#include <algorithm>
#include <random>

#include "accrue/accum/accumulator.h"
#include "accum/problem.h"
#include "accum/taken.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using testing::kTake;
using Ids = std::vector<std::int64_t>;

/// A regression whose rows count by their weights.
struct Weighted {
  Weighted(std::uint64_t seed, at::ScalarType dtype) : problem(testing::make_problem(seed, dtype)) {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> size;
    for (const at::Tensor& input : problem.inputs) {
      at::Tensor weight = at::empty({input.size(0), 1}, input.options());
      const bool empty = random() % 4 == 0;
      for (std::int64_t row = 0; row < input.size(0); ++row)
        weight[row] = empty || random() % 5 == 0 ? 0 : size(random);
      weights.push_back(weight);
    }
  }
  Loss loss(const Ids& samples) const {
    Loss loss{at::zeros({}, problem.inputs[0].options()), 0};
    for (const std::int64_t id : samples) {
      const auto i = static_cast<std::size_t>(id);
      const at::Tensor hidden = at::tanh(at::linear(problem.inputs[i], problem.parameters[0].tensor,
                                                    problem.parameters[1].tensor));
      const at::Tensor error = at::linear(hidden, problem.parameters[2].tensor);
      loss.sum = loss.sum + ((error - problem.targets[i]).square() * weights[i]).sum();
      loss.weight += weights[i].sum(at::kDouble).item<double>();
    }
    return loss;
  }
  std::vector<at::Tensor> reference() const {
    const Loss whole = loss(problem.all());
    torch::autograd::variable_list leaves;
    for (const NamedParameter& parameter : problem.parameters) leaves.push_back(parameter.tensor);
    return torch::autograd::grad({whole.sum / whole.weight}, leaves);
  }

  testing::Problem problem;
  std::vector<at::Tensor> weights;
};

/// Cuts a shuffled batch at random places, also twice at the same one: an empty micro-batch.
std::vector<Ids> split(const Weighted& f, std::mt19937_64& random) {
  Ids ids = f.problem.all();
  std::shuffle(ids.begin(), ids.end(), random);
  std::vector<Ids> micros(1);
  for (const std::int64_t id : ids) {
    while (random() % 3 == 0) micros.emplace_back();
    micros.back().push_back(id);
  }
  return micros;
}

class Weights : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(Weights, GiveTheFullBatchsGradientForAnySplit) {
  std::mt19937_64 random(17);
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    const Weighted f(seed, GetParam());
    const auto expected = f.reference();
    Accumulator accumulator(f.problem.parameters);
    for (const Ids& micro : split(f, random)) accumulator.backward(f.loss(micro));
    const StepReport report = accumulator.step(kTake);
    ASSERT_TRUE(report.stepped);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const at::Tensor actual = f.problem.parameters[i].tensor.grad();
      EXPECT_TRUE(testing::close(actual, expected[i], GetParam(), f.problem.rows));
      if (GetParam() == at::kDouble) {
        EXPECT_LE(testing::relative_error(actual, expected[i]), 1e-12);
      }
    }
  }
}

TEST_P(Weights, AreMissedByAMeanOfMeans) {
  std::mt19937_64 random(17);
  int caught = 0;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    const Weighted f(seed, GetParam());
    const auto expected = f.reference();
    Accumulator accumulator(f.problem.parameters);
    for (const Ids& micro : split(f, random)) {
      const Loss loss = f.loss(micro);
      if (loss.weight > 0) accumulator.backward({loss.sum / loss.weight, 1});
    }
    const auto parts = accumulator.step(kTake).micro_batches;
    const at::Tensor wrong = f.problem.parameters[2].tensor.grad();
    if (!testing::close(wrong, expected[2], GetParam(), f.problem.rows)) ++caught;
    if (parts == 1) ++caught;
  }
  EXPECT_EQ(caught, 25);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Weights, ::testing::Values(at::kFloat, at::kDouble));

}  // namespace
}  // namespace accrue
