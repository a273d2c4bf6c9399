#include "train/plan/storage.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

memory::Resident held(void (*change)(Config&)) {
  Config config;
  change(config);
  return memory::state_bytes(1000, storage_of(config));
}

TEST(Storage, IsWhatTheConfigHasAccrueHold) {
  EXPECT_EQ(held([](Config&) {}).total(), 16'000);
  EXPECT_EQ(held([](Config& c) { c.precision.compute = models::Compute::bf16; }).total(), 18'000)
      << "with a bf16 copy of the weights";
  EXPECT_EQ(held([](Config& c) { c.precision.compute = models::Compute::fp64; }).total(), 32'000);
}

TEST(Storage, OfGradientsIsThatOfTheirSums) {
  using accum::Accumulation;
  EXPECT_EQ(held([](Config& c) { c.precision.accumulate = Accumulation::bf16; }).gradients, 2'000);
  EXPECT_EQ(
      held([](Config& c) { c.precision.accumulate = Accumulation::bf16_stochastic; }).gradients,
      2'000);
  EXPECT_EQ(held([](Config& c) { c.precision.accumulate = Accumulation::bf16_kahan; }).gradients,
            4'000);
  EXPECT_EQ(held([](Config& c) { c.precision.accumulate = Accumulation::fp64; }).gradients, 8'000);
  EXPECT_EQ(held([](Config& c) { c.precision.accumulate = Accumulation::fixed; }).gradients, 8'000);
  EXPECT_EQ(held([](Config& c) { c.optim.kind = OptimizerKind::adama; }).gradients, 0);
  EXPECT_EQ(held([](Config& c) { c.memory.gradients = GradientPlace::optimizer; }).gradients, 0);
}

TEST(Storage, OfMomentsFollowsTheOptimizerAndTheStateItKeeps) {
  using optim::StatePrecision;
  EXPECT_EQ(held([](Config& c) { c.optim.state = StatePrecision::bf16; }).optimizer, 4'000);
  EXPECT_EQ(held([](Config& c) { c.optim.state = StatePrecision::int8; }).optimizer, 2'031)
      << "with a scale for every 256";
  EXPECT_EQ(held([](Config& c) { c.optim.kind = OptimizerKind::sgd; }).optimizer, 4'000);
  EXPECT_EQ(held([](Config& c) { c.optim.kind = OptimizerKind::rmsprop; }).optimizer, 8'000);
  const auto without_momentum = [](Config& c) {
    c.optim.kind = OptimizerKind::sgd;
    c.optim.momentum = 0;
  };
  EXPECT_EQ(held(without_momentum).optimizer, 0);
}

}  // namespace
}  // namespace accrue::train
