// False alarms that random configs found (scripts/sound_runs.py), and faults that must still be
// named with them.
#include "accrue/kernels/kernel_choice.h"
#include "configs_to_verify.h"

namespace accrue::proof {
namespace {

class SoundConfigs : public testing::ConfigsToVerify {};

/// Kernels round at other places than ATen's operators, and optimizers that divide by a gradient's
/// size amplify it.
TEST_F(SoundConfigs, OfBf16WithDropout) {
  train::Config config = of_text();
  config.precision.compute = models::Compute::bf16;
  for (const auto kind : {train::OptimizerKind::adam, train::OptimizerKind::rmsprop})
    for (const std::uint64_t seed : {1, 2, 3}) {
      config.optim.kind = kind;
      config.run.seed = seed;
      expect(Cause::none, config);
    }
}

/// With ATen's operators, as on a GPU.
TEST_F(SoundConfigs, OfFp16WithDropout) {
  const kernels::KernelScope generic(kernels::Kernels::generic);
  train::Config config = of_text();
  config.run.kernels = kernels::Kernels::generic;
  config.precision.compute = models::Compute::fp16;
  expect(Cause::none, config);
}

/// The loss of precision of such sums is not a fault of the optimizer.
TEST_F(SoundConfigs, OfSumsThatAreCoarserThanTheParameters) {
  train::Config config = of_text();
  for (const auto sums : {accum::Accumulation::bf16_stochastic, accum::Accumulation::bf16_kahan}) {
    config.precision.accumulate = sums;
    expect(Cause::none, config);
  }
  config.precision = {.compute = models::Compute::fp64, .accumulate = accum::Accumulation::fixed};
  expect(Cause::none, config);
}

TEST_F(SoundConfigs, ABf16SumIsNamedInBf16Too) {
  train::Config config = of_text();
  config.precision = {.compute = models::Compute::bf16, .accumulate = accum::Accumulation::bf16};
  config.batch.samples = 32;
  config.batch.micro = 2;
  expect(Cause::precision, config);
}

}  // namespace
}  // namespace accrue::proof
