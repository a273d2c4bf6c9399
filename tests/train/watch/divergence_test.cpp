#include "train/watch/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace accrue::train {
namespace {

/// The indices of the reported losses.
std::vector<std::size_t> reported(Divergence divergence, const std::vector<double>& losses) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (divergence.observe(losses[i])) places.push_back(i);
  return places;
}

TEST(Divergence, IsALossFarAboveThatOfAUniformGuess) {
  const double uniform = std::log(256.);
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(reported(Divergence(uniform), {2248}), Places{0}) << "the first step counts, too";
  EXPECT_EQ(reported(Divergence(uniform), {5.6, 5.5, 3 * uniform + 0.01}), Places{2});
  EXPECT_EQ(reported(Divergence(uniform), {5.6, 5.5, 3 * uniform - 0.01}), Places{});
  EXPECT_EQ(reported(Divergence(std::nullopt), {2248}), Places{}) << "of other losses nobody knows";
}

TEST(Divergence, IsALossThatRisesTenTimes) {
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(reported(Divergence(std::nullopt), {4, 1, 0.5, 5.1}), Places{3});
  EXPECT_EQ(reported(Divergence(std::nullopt), {4, 1, 0.5, 4.9}), Places{}) << "not ten times";
  EXPECT_EQ(reported(Divergence(std::nullopt), {4, 1e-4, 3.9}), Places{}) << "below the first one";
  EXPECT_EQ(reported(Divergence(std::nullopt), {-1, -20, 3}), Places{}) << "no ratio of a negative";
}

TEST(Divergence, IsReportedOnceUntilItIsOver) {
  const std::vector<double> losses{4, 50, 60, 4, 50};
  EXPECT_EQ(reported(Divergence(std::log(256.)), losses), (std::vector<std::size_t>{1, 4}));
}

TEST(Divergence, IsReportedWithTheLossAndThatOfAUniformGuess) {
  Divergence divergence(std::log(256.));
  const auto reason = divergence.observe(2248);
  ASSERT_TRUE(reason);
  EXPECT_EQ(*reason, "a loss of 2248, while a model that predicts all tokens alike has 5.545");
}

}  // namespace
}  // namespace accrue::train
