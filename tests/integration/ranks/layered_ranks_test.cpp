// Windows in layered order on several ranks, in memory and with the state of each rank in a file.
#include <ATen/ATen.h>

#include <filesystem>

#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using testing::Words;

class LayeredRanks : public testing::DistributedRun {
 protected:
  /// A run in standard order. The matrices are large enough to be offloaded (64 KiB).
  Config standard(const std::string& out) const {
    Config c = small(out);
    c.run.steps = 3;
    c.model.width = 128;
    c.precision.accumulate = accum::Accumulation::fixed;
    c.optim.kind = OptimizerKind::adamw;
    c.optim.lr = 1e-2;
    c.optim.schedule.kind = optim::ScheduleKind::constant;
    return c;
  }

  Config layered(const std::string& out) const {
    Config c = standard(out);
    c.memory.accumulation = AccumulationOrder::layered;
    return c;
  }

  /// Not the temporary folder, which may lie in memory.
  static std::string offloaded() {
    return "--memory.offload=" + std::filesystem::current_path().string();
  }

  static void expect_same_state(const Config& c, const Config& expected) {
    expect_same_bits(parameters_of(c), parameters_of(expected));
    expect_same_bits(state_of(c), state_of(expected));
  }
  static void expect_same_run(const Config& c, const Config& expected) {
    expect_same_state(c, expected);
    EXPECT_TRUE(evaluates_alike(c, expected));
    const auto steps = steps_of(c), expected_steps = steps_of(expected);
    ASSERT_EQ(steps.size(), expected_steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const char* key : {"step", "samples", "tokens", "weight", "micro_batches", "grad_norm"})
        EXPECT_EQ(steps[i][key], expected_steps[i][key]) << key;
  }
};

TEST_F(LayeredRanks, HaveTheBitsOfOneProcessInFixedPoint) {
  const Config alone = standard("alone");
  expect_runs(alone, 1);
  for (const Reduce reduce : {Reduce::overlap, Reduce::end}) {
    Config c = layered(std::string(reduce_words.of(reduce)));
    c.dist.reduce = reduce;
    expect_runs(c, 2);
    expect_same_run(c, alone);
  }
  Config divided = layered("divided");
  divided.dist.shard = Shard::optimizer;
  expect_runs(divided, 2);
  expect_same_run(divided, alone);

  Config control = layered("control");
  control.optim.lr *= 1.05;
  expect_runs(control, 2);
  EXPECT_FALSE(
      at::equal(parameters_of(control).front().tensor, parameters_of(alone).front().tensor));
}

TEST_F(LayeredRanks, HaveTheSameBitsOffloadedOnAllOrOnOne) {
  const Config alone = layered("alone");
  expect_runs(alone, 1, {offloaded()});
  const Config all = layered("all");
  expect_runs(all, 2, {offloaded()});
  EXPECT_EQ(events_of("offload", all).size(), 1U);
  expect_same_run(all, alone);

  const Config one = layered("one");
  const Words in_file = command(one, {offloaded()}), in_memory = command(one);
  for (const Program::Result& result : accrue::testing::run_ranks(
           folder_, 2, 2, [&](int rank) { return rank == 0 ? in_file : in_memory; }))
    EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(events_of("offload", one).size(), 1U);
  expect_same_run(one, alone);
}

/// A window of one sample: only the rank that has it finds that the first units are too small.
TEST_F(LayeredRanks, EnlargeTheUnitsOfFixedPointTogether) {
  const auto with_large_gradients = [](Config c) {
    c.loss.z_loss = 1e6;
    c.batch.tokens = c.model.context;
    c.batch.micro = 1;
    return c;
  };
  const Config alone = with_large_gradients(standard("alone"));
  expect_runs(alone, 1);
  const Config c = with_large_gradients(layered("layered"));
  expect_runs(c, 2);
  expect_same_state(c, alone);
}

TEST_F(LayeredRanks, ContinueFromTheStateOfOffloadedRanks) {
  const Config whole = layered("whole");
  expect_runs(whole, 1);
  Config c = layered("run");
  c.run.steps = 2;
  expect_runs(c, 2, {offloaded()});
  expect_runs(c, 3, {"--resume", "--run.steps=3", offloaded()});
  expect_same_state(c, whole);
}

}  // namespace
}  // namespace accrue::train
