#include "distributed/schedule/outer_step.h"

#include <gmock/gmock.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <limits>

#include "distributed/local_ranks.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace accrue::distributed {
namespace {

using accrue::testing::close;
using accrue::testing::error_of;
using accrue::testing::usage_message;
using ::testing::HasSubstr;
using testing::random_tensor;

/// The same on every rank, at first.
NamedParameters parameters_of(at::ScalarType dtype = at::kFloat) {
  return {{"matrix", random_tensor({7, 5}, 1).to(dtype).requires_grad_()},
          {"bias", random_tensor({11}, 2).to(dtype).requires_grad_()}};
}

at::Tensor flat(const NamedParameters& parameters) {
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : parameters) parts.push_back(tensor.detach().flatten());
  return at::cat(parts);
}

/// A rank's round: it changes its parameters.
void train(const NamedParameters& parameters, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : parameters)
    tensor.add_(random_tensor(tensor.sizes(), ++seed), 0.1);
}

struct Rank {
  explicit Rank(const OuterOptions& options) : outer(parameters, options) {}
  NamedParameters parameters = parameters_of();
  OuterStep outer;
};

/// A round of all ranks: returns the mean of their parameters before the outer step.
at::Tensor run_round(std::vector<std::unique_ptr<Rank>>& ranks, std::uint64_t seed) {
  at::Tensor difference, parameters;
  for (const auto& rank : ranks) {
    train(rank->parameters, seed += 100);
    const at::Tensor mine = rank->outer.difference(), values = flat(rank->parameters);
    difference = difference.defined() ? difference + mine : mine;
    parameters =
        parameters.defined() ? parameters + values.to(at::kDouble) : values.to(at::kDouble);
  }
  const auto world = static_cast<double>(ranks.size());
  for (const auto& rank : ranks) rank->outer.step(difference / world);
  return parameters / world;
}

std::vector<std::unique_ptr<Rank>> ranks_of(std::size_t world, const OuterOptions& options) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::size_t i = 0; i < world; ++i) ranks.push_back(std::make_unique<Rank>(options));
  return ranks;
}

TEST(OuterStep, WithoutMomentumEveryRankGetsTheMeanOfTheParameters) {
  auto ranks = ranks_of(3, {.local_steps = 4});
  for (std::uint64_t round = 0; round < 3; ++round) {
    const at::Tensor mean = run_round(ranks, 1000 * round);
    for (const auto& rank : ranks) {
      EXPECT_TRUE(close(flat(rank->parameters), mean, at::kFloat, 3));
      EXPECT_TRUE(at::equal(flat(rank->parameters), flat(ranks.front()->parameters)));
    }
  }
}

TEST(OuterStep, IsTorchsNesterovOnTheMeanDifference) {
  const OuterOptions options{.local_steps = 4, .lr = 0.7, .momentum = 0.9};
  auto ranks = ranks_of(2, options);
  at::Tensor expected = flat(ranks.front()->parameters).to(at::kDouble).requires_grad_();
  torch::optim::SGD sgd({expected}, torch::optim::SGDOptions(0.7).momentum(0.9).nesterov(true));
  for (std::uint64_t round = 0; round < 4; ++round) {
    const at::Tensor start = expected.detach().clone();
    const at::Tensor mean = run_round(ranks, 1000 * round);
    expected.mutable_grad() = start - mean;
    sgd.step();
    EXPECT_TRUE(close(flat(ranks.front()->parameters), expected, at::kFloat, 8));
    EXPECT_FALSE(close(flat(ranks.front()->parameters), mean, at::kFloat, 8));
  }
}

TEST(OuterStep, StateGoesOnInTheMiddleOfARound) {
  const OuterOptions options{.local_steps = 4, .lr = 0.7, .momentum = 0.9};
  auto ranks = ranks_of(1, options);
  run_round(ranks, 0);
  Rank& rank = *ranks.front();
  train(rank.parameters, 1);

  auto resumed = ranks_of(1, options);
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < rank.parameters.size(); ++i)
      resumed.front()->parameters[i].tensor.copy_(rank.parameters[i].tensor);
  }
  resumed.front()->outer.load_state(rank.outer.state());
  run_round(ranks, 7);
  run_round(resumed, 7);
  EXPECT_TRUE(at::equal(flat(resumed.front()->parameters), flat(rank.parameters)));
}

TEST(OuterStep, AMeanThatIsNotFiniteChangesNothing) {
  Rank rank({.local_steps = 2, .momentum = 0.5});
  const at::Tensor before = flat(rank.parameters);
  at::Tensor mean = at::zeros_like(before);
  mean[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(error_of([&] { rank.outer.step(mean); }, Error::Kind::runtime),
              HasSubstr("not finite"));
  EXPECT_TRUE(at::equal(flat(rank.parameters), before));
  for (const auto& [name, tensor] : rank.outer.state())
    EXPECT_TRUE(at::isfinite(tensor).all().item<bool>()) << name;
}

TEST(OuterStep, RefusesOptionsAndParametersThatItCannotTake) {
  EXPECT_THAT(usage_message([] { OuterStep(parameters_of(), {.local_steps = 0}); }),
              HasSubstr("at least 1 local step"));
  EXPECT_THAT(usage_message([] { OuterStep({}, {}); }), HasSubstr("at least one parameter"));
  EXPECT_THAT(usage_message([] { OuterStep(parameters_of(at::kHalf), {}); }),
              HasSubstr("matrix in Half"));
  OuterStep outer(parameters_of(), {});
  EXPECT_THAT(usage_message([&] { outer.step(at::zeros({3})); }), HasSubstr("received Float [3]"));
  EXPECT_THAT(usage_message([&] {
                outer.load_state({{"start", at::zeros({3})}});
              }),
              HasSubstr("start as Float [46]"));
}

}  // namespace
}  // namespace accrue::distributed
