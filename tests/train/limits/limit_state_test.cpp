#include "train/limits/limit_state.h"

#include <gtest/gtest.h>

#include <random>

namespace accrue::train {
namespace {

constexpr double kEnd = 1e6;  ///< long after everything

Limit above(double bound) { return {.file = "/temp", .above = bound}; }
Limit below(double bound) { return {.file = "/charge", .below = bound}; }
LimitReading read(double value) { return {.value = value}; }
LimitReading unread() { return {.trouble = "it is gone"}; }

/// The state after these values, one second apart.
LimitState after_all(const Limit& limit, const std::vector<double>& values) {
  LimitState state;
  double now = 0;
  for (const double value : values) state = after(read(value), limit, state, now++);
  return state;
}

TEST(LimitState, IsMetBeyondItsBoundAtOnce) {
  EXPECT_FALSE(after_all(above(85), {85}).is_met);
  EXPECT_TRUE(after_all(above(85), {85.1}).is_met);
  EXPECT_FALSE(after_all(below(20), {20}).is_met);
  EXPECT_TRUE(after_all(below(20), {19.9}).is_met);
}

TEST(LimitState, IsOverATwentiethBehindItsBound) {
  EXPECT_TRUE(after_all(above(100), {101, 96, 96, 96, 96, 96, 96}).is_met);
  EXPECT_FALSE(after_all(above(100), {101, 95, 95, 95, 95, 95, 95}).is_met);
  EXPECT_TRUE(after_all(below(20), {19, 20.9, 20.9, 20.9, 20.9, 20.9, 20.9}).is_met);
  EXPECT_FALSE(after_all(below(20), {19, 21, 21, 21, 21, 21, 21}).is_met);
  EXPECT_EQ(end_of(above(-40)), -42);
  EXPECT_EQ(end_of(below(-40)), -38);
}

TEST(LimitState, IsOverWhereItIsStated) {
  Limit limit = above(100);
  limit.until = 50;
  EXPECT_TRUE(after_all(limit, {101, 51, 51, 51, 51, 51, 51}).is_met);
  EXPECT_FALSE(after_all(limit, {101, 51, 51, 51, 51, 51, 50}).is_met);
}

TEST(LimitState, OfAFileIsMetWhileThatIsThere) {
  const Limit limit{.file = "/run/preempted"};
  EXPECT_FALSE(after_all(limit, {0}).is_met);
  EXPECT_TRUE(after_all(limit, {0, 1}).is_met);
  EXPECT_FALSE(after_all(limit, {0, 1, 1, 1, 1, 1, 0}).is_met);
}

TEST(LimitState, StaysForFiveReadings) {
  EXPECT_TRUE(after_all(above(85), {90, 0, 0, 0, 0}).is_met);
  EXPECT_FALSE(after_all(above(85), {90, 0, 0, 0, 0, 0}).is_met);
  Limit seldom = above(85);
  seldom.every = Duration{60, Duration::Unit::seconds};
  LimitState state = after(read(90), seldom, {}, 0);
  state = after(read(0), seldom, state, 299);
  EXPECT_TRUE(state.is_met);
  EXPECT_FALSE(after(read(0), seldom, state, 300).is_met);
}

TEST(LimitState, StaysAsItIsForTenReadingsThatFail) {
  LimitState state = after(read(90), above(85), {}, 0);
  state = after(unread(), above(85), state, 1);
  state = after(unread(), above(85), state, 10.9);
  EXPECT_TRUE(state.is_met);
  EXPECT_FALSE(state.is_left_out);
  const LimitState gone = after(unread(), above(85), state, 11);
  EXPECT_FALSE(gone.is_met) << "a sensor that is gone holds up no run";
  EXPECT_TRUE(gone.is_left_out);
  EXPECT_EQ(after(unread(), above(85), gone, kEnd), gone);
  const LimitState back = after(read(90), above(85), gone, 12);
  EXPECT_TRUE(back.is_met);
  EXPECT_FALSE(back.is_left_out);
  // A readable value in between restarts the count.
  LimitState now_and_then = after(read(84), above(85), state, 10.95);
  now_and_then = after(unread(), above(85), now_and_then, 12);
  EXPECT_FALSE(after(unread(), above(85), now_and_then, 21.9).is_left_out);
}

TEST(LimitState, IsReadEverySecondAndACommandEveryTen) {
  EXPECT_EQ(interval_of({.file = "/temp"}), 1);
  EXPECT_EQ(interval_of({.command = "true"}), 10);
  EXPECT_EQ(interval_of({.command = "true", .every = Duration{3, Duration::Unit::seconds}}), 3);
}

/// Properties that hold for random limits and readings.
class AnyLimit : public ::testing::Test {
 protected:
  Limit limit() {
    const double bound = number(-100, 100);
    Limit drawn = coin() ? above(bound) : below(bound);
    if (coin()) drawn.until = bound + (drawn.below ? 1 : -1) * number(0, 50);
    if (coin()) drawn.every = Duration{number(0.1, 100), Duration::Unit::seconds};
    return drawn;
  }
  LimitReading reading() { return number(0, 1) < 0.2 ? unread() : read(number(-200, 200)); }
  /// A state that readings can lead to, and its time.
  std::pair<LimitState, double> state(const Limit& of) {
    LimitState state;
    double now = 0;
    for (int i = 0; i < 30; ++i) state = after(reading(), of, state, now += number(0, 10));
    return {state, now};
  }
  double number(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  bool coin() { return number(0, 1) < 0.5; }

 private:
  std::mt19937 random_{1337};
};

TEST_F(AnyLimit, ChangesNothingWithinItsHysteresis) {
  for (int draw = 0; draw < 2000; ++draw) {
    const Limit drawn = limit();
    auto [at, now] = state(drawn);
    const bool was_met = at.is_met;
    const double bound = drawn.below ? *drawn.below : *drawn.above, end = end_of(drawn);
    for (int i = 0; i < 50; ++i) {
      // Strictly after the end, up to the bound, which itself is not beyond it.
      const double share = number(0, 1);
      const double value = share == 0 ? bound : bound + (end - bound) * (1 - share);
      if (value == end) continue;
      at = after(read(value), drawn, at, now += number(0, 1000));
      ASSERT_EQ(at.is_met, was_met) << value << " of " << bound << " until " << end;
    }
  }
}

TEST_F(AnyLimit, IsNotMetTwiceWithinFiveReadings) {
  for (int draw = 0; draw < 500; ++draw) {
    const Limit drawn = limit();
    LimitState at;
    double now = 0, met_at = -kEnd;
    for (int i = 0; i < 200; ++i) {
      const bool was_met = at.is_met;
      at = after(read(number(-200, 200)), drawn, at, now += number(0, interval_of(drawn)));
      if (was_met || !at.is_met) continue;
      ASSERT_GE(now - met_at, kReadingsMet * interval_of(drawn));
      met_at = now;
    }
  }
}

TEST_F(AnyLimit, IsOverOnceItIsWhatItShouldBeOrCannotBeRead) {
  for (int draw = 0; draw < 2000; ++draw) {
    const Limit drawn = limit();
    const auto [at, now] = state(drawn);
    const double later = now + 1.001 * kReadingsUnread * interval_of(drawn);
    EXPECT_FALSE(after(read(end_of(drawn)), drawn, at, later).is_met);
    const LimitState failing = after(unread(), drawn, at, now);
    EXPECT_FALSE(after(unread(), drawn, failing, later).is_met);
  }
}

}  // namespace
}  // namespace accrue::train
