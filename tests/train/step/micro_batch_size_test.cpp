#include "train/step/micro_batch_size.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

TEST(DecideMicroBatch, TakesTheLargestPowerOfTwoInAQuarterOfTheMemory) {
  struct Case {
    std::int64_t bytes_per_sample, available, window, expected;
  };
  for (const Case& c : {Case{100, 4'000, 64, 8}, Case{100, 6'300, 64, 8}, Case{100, 6'400, 64, 16},
                        Case{100, 1'000'000, 64, 64}, Case{100, 1'000'000, 63, 63},
                        Case{1'000'000, 1'000, 64, 1}, Case{0, 1'000, 6, 6}}) {
    const MicroDecision decision = decide_micro_batch({c.bytes_per_sample, c.available, c.window});
    EXPECT_EQ(decision.samples, c.expected) << decision.reason;
  }
}

}  // namespace
}  // namespace accrue::train
