#include "train/watch/loss_spikes.h"

#include <gmock/gmock.h>

#include <random>
#include <vector>

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Losses of a run whose windows take four draws each, in the order of the data.
class SpikesTest : public ::testing::Test {
 protected:
  void see(double loss, double grad_norm = 1) {
    const std::int64_t draw = 4 * steps_;
    if (auto event = spikes_.observe({.step = ++steps_,
                                      .loss = loss,
                                      .grad_norm = grad_norm,
                                      .lr = 3e-3,
                                      .draws = {draw, draw + 4}}))
      events_.push_back(*event);
  }
  /// Losses about 3, with a standard deviation of 0.02.
  void see_usual(int steps) {
    std::normal_distribution<double> noise(3, 0.02);
    for (int i = 0; i < steps; ++i) see(noise(random_));
  }

  std::mt19937 random_{7};
  LossSpikes spikes_{batch::Sampler(1000, batch::Order::sequential, 0)};
  std::int64_t steps_ = 0;
  std::vector<Event> events_;
};

TEST_F(SpikesTest, AreOfTheirSamplesWhereTheNextLossIsUsualAgain) {
  see_usual(30);
  see(5.5, 9);
  EXPECT_TRUE(events_.empty()) << "the step after it tells the cause";
  see_usual(30);
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_EQ(events_[0].name, "loss_spike");
  EXPECT_EQ(events_[0].step, 31);
  EXPECT_THAT(events_[0].reason,
              AllOf(HasSubstr("the loss was 5.5, where the steps before had about 2.996"),
                    HasSubstr("its samples are suspected, draws 120 to 123"),
                    HasSubstr("samples 120, 121, 122, 123"), Not(HasSubstr("optim.lr"))));
}

TEST_F(SpikesTest, AreOfTheUpdateBeforeWhereTheLossStaysHigh) {
  see_usual(29);
  see(3, 12);
  see(7);
  for (int i = 0; i < 10; ++i) see(6.8);
  ASSERT_EQ(events_.size(), 1U) << "what lasts is told once";
  EXPECT_EQ(events_[0].step, 31);
  EXPECT_THAT(events_[0].reason,
              AllOf(HasSubstr("the next step had 6.8 with other samples"),
                    HasSubstr("the updates before are suspected (lr 0.003"),
                    HasSubstr("a gradient of norm 12 where 1 is usual"), HasSubstr("optim.clip"),
                    HasSubstr("the step's own were draws 120 to 123")));
}

TEST_F(SpikesTest, AreToldAgainOnceTheLossWasUsual) {
  see_usual(30);
  see(5);
  see_usual(20);
  see(5);
  see_usual(1);
  EXPECT_EQ(events_.size(), 2U);
}

TEST_F(SpikesTest, NameTheFirstOfManySamples) {
  see_usual(30);
  spikes_.observe({.step = ++steps_, .loss = 9, .draws = {0, 500}});
  see_usual(1);
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_THAT(events_[0].reason,
              AllOf(HasSubstr("draws 0 to 499"), HasSubstr("62, 63, ... (500 in all)")));
}

TEST_F(SpikesTest, AreNoneOfStepsThatTheRunTakesAgain) {
  see_usual(30);
  see(5.5);
  steps_ = 25;
  see_usual(40);
  EXPECT_TRUE(events_.empty()) << "step 31 was not taken as it was told";
  see(5.5);
  see_usual(1);
  EXPECT_EQ(events_.size(), 1U);
}

TEST_F(SpikesTest, AreNoneInWhatIsUsual) {
  // 400 steps of noise, of a loss that first falls fast, and of one that is constant.
  for (int i = 0; i < 100; ++i) see(3 + 8 * std::exp(-i / 10.0));
  see_usual(400);
  for (int i = 0; i < 100; ++i) see(3);
  see(3.25);
  see(3);
  EXPECT_TRUE(events_.empty()) << events_[0].reason;
  see(3.35);
  see(3);
  EXPECT_EQ(events_.size(), 1U) << "a tenth more is a spike where nothing else moves";
}

TEST_F(SpikesTest, AreNoneInTheFirstSteps) {
  for (const double loss : {5.0, 9.0, 3.0, 3.0, 30.0, 3.0}) see(loss);
  EXPECT_TRUE(events_.empty());
}

TEST_F(SpikesTest, AreNoneOfALossOfZero) {
  for (int i = 0; i < 30; ++i) see(0);
  see(1);
  see(0);
  EXPECT_TRUE(events_.empty()) << "there is nothing to compare with";
}

}  // namespace
}  // namespace accrue::train
