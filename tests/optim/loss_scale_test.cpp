#include "optim/loss_scale.h"

#include <gmock/gmock.h>

#include "windows.h"

namespace accrue::optim {
namespace {

using ::testing::HasSubstr;
using testing::usage_message;
using Verdict = LossScaler::Verdict;

TEST(LossScaler, HalvesAtAnOverflowAndAsksForAReplay) {
  LossScaler scaler({.initial_scale = 8});
  EXPECT_EQ(scaler.scale(), 8);
  EXPECT_EQ(scaler.overflowed(), Verdict::replay);
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_EQ(scaler.overflowed(), Verdict::replay);
  EXPECT_EQ(scaler.scale(), 2);
}

TEST(LossScaler, BlamesTheMicroBatchOnceTheScaleCannotFall) {
  LossScaler scaler({.initial_scale = 2});
  EXPECT_EQ(scaler.overflowed(), Verdict::replay);
  EXPECT_EQ(scaler.overflowed(), Verdict::quarantine);
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, GrowsAfterGoodWindowsInARowAndCountsAnewAfterAnOverflow) {
  LossScaler scaler({.initial_scale = 16, .growth_interval = 3});
  for (int i = 0; i < 2; ++i) scaler.window_done();
  EXPECT_EQ(scaler.scale(), 16);
  scaler.overflowed();
  for (int i = 0; i < 2; ++i) scaler.window_done();
  EXPECT_EQ(scaler.scale(), 8);
  scaler.window_done();
  EXPECT_EQ(scaler.scale(), 16);
  for (int i = 0; i < 3; ++i) scaler.window_done();
  EXPECT_EQ(scaler.scale(), 32);
}

TEST(LossScaler, StopsAtItsLargestScale) {
  LossScaler scaler({.initial_scale = 4, .growth_interval = 1, .max_scale = 8});
  for (int i = 0; i < 5; ++i) scaler.window_done();
  EXPECT_EQ(scaler.scale(), 8);
}

TEST(LossScaler, AFixedScaleNeverMoves) {
  LossScaler scaler({.initial_scale = 4, .growth_interval = 1, .dynamic = false});
  for (int i = 0; i < 5; ++i) scaler.window_done();
  EXPECT_EQ(scaler.overflowed(), Verdict::quarantine);
  EXPECT_EQ(scaler.scale(), 4);
}

TEST(LossScaler, GoesOnFromItsState) {
  const LossScaler::Options options{.initial_scale = 16, .growth_interval = 3};
  LossScaler whole(options), first(options);
  for (LossScaler* scaler : {&whole, &first}) {
    scaler->overflowed();
    scaler->window_done();
    scaler->window_done();
  }
  LossScaler second(options);
  second.load(first.state());
  whole.window_done();
  second.window_done();
  EXPECT_EQ(second.scale(), whole.scale());
  EXPECT_EQ(second.scale(), 16);
  EXPECT_EQ(second.state().good_windows, 0);
}

TEST(LossScaler, RefusesWhatRoundsOrMakesNoSense) {
  EXPECT_THAT(usage_message([] { LossScaler({.initial_scale = 1000}); }),
              HasSubstr("initial_scale a power of two"));
  EXPECT_THAT(usage_message([] { LossScaler({.initial_scale = 0}); }), HasSubstr("power of two"));
  EXPECT_THAT(usage_message([] { LossScaler({.growth_factor = 1}); }), HasSubstr("above 1"));
  EXPECT_THAT(usage_message([] { LossScaler({.backoff_factor = 1}); }), HasSubstr("below 1"));
  EXPECT_THAT(usage_message([] { LossScaler({.growth_interval = 0}); }), HasSubstr("interval"));
  EXPECT_THAT(usage_message([] { LossScaler({.initial_scale = 0.5}); }), HasSubstr("within"));
  LossScaler scaler({});
  EXPECT_THAT(usage_message([&] { scaler.load({.scale = 3}); }), HasSubstr("power of two"));
  EXPECT_THAT(usage_message([&] { scaler.load({.scale = 8, .good_windows = -1}); }),
              HasSubstr("growth_interval"));
  EXPECT_EQ(scaler.scale(), 1'024);
}

}  // namespace
}  // namespace accrue::optim
