#include "models/layers/losses/pair_losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::within;

constexpr double nearly = 1e-14;

at::Tensor pairs_of(std::vector<double> numbers) {
  return at::tensor(numbers, at::kDouble).view({-1, 2});
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

PairScores scores() {
  return {.log_probabilities = pairs_of({-3, -5, -4, -2.5}).requires_grad_(true),
          .lengths = pairs_of({2, 4, 5, 1}),
          .reference = pairs_of({-3.5, -4, -4, -2}),
          .weights = at::tensor({1.0, 0.5}, at::kDouble)};
}

TEST(DpoLoss, IsTheClosedForm) {
  const PairScores pairs = scores();
  const double beta = 0.3;
  const double margins[] = {beta * (0.5 + 1), beta * (0 + 0.5)};
  const Loss loss = dpo_loss(pairs, beta);
  EXPECT_NEAR(loss.sum.item<double>(),
              -std::log(sigmoid(margins[0])) - 0.5 * std::log(sigmoid(margins[1])), nearly);
  EXPECT_EQ(loss.weight, 1.5);
  ASSERT_EQ(loss.measures.size(), 2);
  EXPECT_EQ(loss.measures[0], 1.5);
  EXPECT_NEAR(loss.measures[1], margins[0] + 0.5 * margins[1], nearly);
  loss.sum.backward();
  const double pull[] = {-beta * sigmoid(-margins[0]), -0.5 * beta * sigmoid(-margins[1])};
  EXPECT_TRUE(within(pairs.log_probabilities.grad(),
                     pairs_of({pull[0], -pull[0], pull[1], -pull[1]}), nearly));
}

TEST(DpoLoss, IsLogTwoWhereTheModelIsItsReference) {
  PairScores pairs = scores();
  pairs.reference = pairs.log_probabilities.detach();
  EXPECT_NEAR(dpo_loss(pairs, 0.1).sum.item<double>(), 1.5 * std::log(2), nearly);
}

TEST(DpoLoss, StaysFiniteWhereAMarginIsLarge) {
  PairScores pairs = scores();
  pairs.log_probabilities = pairs_of({-1e5, -1, -1, -1e5}).requires_grad_(true);
  const Loss loss = dpo_loss(pairs, 1);
  EXPECT_TRUE(std::isfinite(loss.sum.item<double>()));
  loss.sum.backward();
  EXPECT_TRUE(pairs.log_probabilities.grad().isfinite().all().item<bool>());
}

double nll_and_preference(double chosen, double rejected, double beta) {
  const auto log_odds = [](double mean) { return mean - std::log(1 - std::exp(mean)); };
  return -chosen - beta * std::log(sigmoid(log_odds(chosen) - log_odds(rejected)));
}

TEST(OrpoLoss, IsTheClosedForm) {
  const PairScores pairs = scores();
  const double beta = 0.3;
  const Loss loss = orpo_loss(pairs, beta);
  EXPECT_NEAR(loss.sum.item<double>(),
              nll_and_preference(-1.5, -1.25, beta) + 0.5 * nll_and_preference(-0.8, -2.5, beta),
              nearly);
  EXPECT_EQ(loss.weight, 1.5);
  ASSERT_EQ(loss.measures.size(), 3);
  EXPECT_EQ(loss.measures[0], 0.5) << "the second pair, whose mean is the larger one";
  EXPECT_NEAR(loss.measures[1], beta * (-0.25 + 0.5 * 1.7), nearly);
  EXPECT_NEAR(loss.measures[2], 1.5 + 0.5 * 0.8, nearly);
}

TEST(OrpoLoss, HasTheGradientOfSmallSteps) {
  PairScores pairs = scores();
  orpo_loss(pairs, 0.3).sum.backward();
  const at::Tensor gradient = pairs.log_probabilities.grad(), at_first = pairs.log_probabilities;
  constexpr double step = 1e-5;
  at::Tensor found = at::zeros({2, 2}, at::kDouble);
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto loss_at = [&](double moved) {
      pairs.log_probabilities = at_first.detach().clone();
      pairs.log_probabilities.view(-1)[i].add_(moved);
      return orpo_loss(pairs, 0.3).sum.item<double>();
    };
    found.view(-1)[i] = (loss_at(step) - loss_at(-step)) / (2 * step);
  }
  EXPECT_TRUE(within(gradient, found, 1e-8));
}

TEST(OrpoLoss, StaysFiniteWhereASequenceIsCertain) {
  PairScores pairs = scores();
  pairs.log_probabilities = pairs_of({0, -5, -4, 0}).requires_grad_(true);
  const Loss loss = orpo_loss(pairs, 0.3);
  EXPECT_TRUE(std::isfinite(loss.sum.item<double>()));
  loss.sum.backward();
  EXPECT_TRUE(pairs.log_probabilities.grad().isfinite().all().item<bool>());
}

TEST(PairLosses, AreNotFiniteWhereAScoreIsNot) {
  PairScores pairs = scores();
  pairs.log_probabilities =
      pairs_of({-1, std::numeric_limits<double>::quiet_NaN(), -1, -2}).requires_grad_(true);
  EXPECT_FALSE(std::isfinite(dpo_loss(pairs, 0.3).sum.item<double>()));
  EXPECT_FALSE(std::isfinite(orpo_loss(pairs, 0.3).sum.item<double>()));
}

}  // namespace
}  // namespace accrue::models
