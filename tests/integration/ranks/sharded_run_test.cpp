// Runs of several processes that divide the optimizer's state.
#include <gmock/gmock.h>

#include "accrue/models/safetensors.h"
#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using testing::DistributedRun;

class ShardedRun : public DistributedRun {
 protected:
  /// Sums in fixed point, whose bits do not depend on the ranks.
  Config exact(const std::string& out, OptimizerKind optimizer = OptimizerKind::adamw) const {
    Config c = small(out);
    c.optim.kind = optimizer;
    c.precision.accumulate = accum::Accumulation::fixed;
    return c;
  }

  Config sharded(Config c, const std::string& out) const {
    c.run.out = (folder_ / out).string();
    c.dist.shard = Shard::optimizer;
    return c;
  }

  static void expect_same_run(const Config& c, const Config& expected) {
    expect_same_bits(parameters_of(c), parameters_of(expected));
    const NamedParameters state = state_of(c), other = state_of(expected);
    expect_same_bits(state, other);
    for (std::size_t i = 0; i < state.size(); ++i) EXPECT_EQ(state[i].name, other[i].name);
    const auto steps = steps_of(c), expected_steps = steps_of(expected);
    ASSERT_EQ(steps.size(), expected_steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      EXPECT_EQ(steps[i]["grad_norm"], expected_steps[i]["grad_norm"]);
  }
};

TEST_F(ShardedRun, HasTheBitsOfOneProcessForEachOptimizer) {
  for (const auto optimizer :
       {OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd, OptimizerKind::rmsprop}) {
    const std::string name(to_string(optimizer));
    SCOPED_TRACE(name);
    const Config alone = exact("alone " + name, optimizer);
    expect_runs(alone, 1);
    const bool is_first = optimizer == OptimizerKind::adamw;
    for (const int world : is_first ? std::vector{2, 3, 4} : std::vector{3}) {
      const Config c = sharded(alone, name + std::to_string(world));
      expect_runs(c, world);
      expect_same_run(c, alone);
    }
  }
}

TEST_F(ShardedRun, HasTheBitsOfOneProcessWithStateInFewerBits) {
  for (const auto state : {optim::StatePrecision::bf16, optim::StatePrecision::int8}) {
    const std::string name(to_string(state));
    SCOPED_TRACE(name);
    Config alone = exact("alone " + name);
    alone.optim.state = state;
    expect_runs(alone, 1);
    const Config c = sharded(alone, name);
    expect_runs(c, 3);
    expect_same_run(c, alone);
  }
}

/// The clock of rank 0 decides when checkpoints are due.
TEST_F(ShardedRun, IsCloseToOneProcessInSinglePrecision) {
  Config alone = small("alone");
  expect_runs(alone, 1);
  for (const Reduce reduce : {Reduce::overlap, Reduce::end}) {
    Config c = sharded(alone, std::string(reduce_words.of(reduce)));
    c.dist.reduce = reduce;
    c.run.checkpoint_every = {1e-3, Duration::Unit::seconds};
    expect_runs(c, 2);
    EXPECT_TRUE(are_close(c, alone));
    EXPECT_TRUE(evaluates_alike(c, alone));
  }
}

TEST_F(ShardedRun, ResumesWithAnotherWorldAndAnotherSharding) {
  const Config alone = exact("alone");
  expect_runs(alone, 1);
  const Config c = sharded(alone, "run");
  expect_runs(c, 2);
  const std::string whole = "--dist.shard=none", divided = "--dist.shard=optimizer";
  for (const auto& [world, sharding] : std::vector<std::pair<int, std::string>>{
           {3, divided}, {2, whole}, {1, whole}, {1, divided}, {4, divided}}) {
    SCOPED_TRACE(sharding + " " + std::to_string(world));
    expect_runs(c, world, {"--resume", "3", sharding});
    expect_same_run(c, alone);
  }
}

}  // namespace
}  // namespace accrue::train
