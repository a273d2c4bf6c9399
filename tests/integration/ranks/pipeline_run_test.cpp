// Runs of several processes that are the stages of a pipeline.
#include <gmock/gmock.h>

#include "distributed/schedule/pipeline_schedule.h"
#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using ::testing::AllOf;
using ::testing::Contains;
using testing::DistributedRun;
using ::testing::HasSubstr;

class PipelineRun : public DistributedRun {
 protected:
  /// A run with three blocks.
  Config small(const std::string& out) const {
    Config c = DistributedRun::small(out);
    c.model.layers = 3;
    return c;
  }

  Config staged(Config c, std::int64_t stages, const std::string& out) const {
    c.run.out = (folder_ / out).string();
    c.dist.stages = stages;
    return c;
  }

  /// Expects the same parameters, losses and gradient norms, to the bit.
  static void expect_same_run(const Config& c, const Config& expected) {
    expect_same_bits(parameters_of(c), parameters_of(expected));
    const auto steps = steps_of(c), expected_steps = steps_of(expected);
    ASSERT_EQ(steps.size(), expected_steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const char* key : {"grad_norm", "loss", "weight", "tokens", "micro_batches", "samples"})
        EXPECT_EQ(steps[i][key], expected_steps[i][key]) << key << " of step " << i + 1;
  }
};

TEST_F(PipelineRun, HasTheBitsOfOneProcessInFixedPoint) {
  for (const auto& [recompute, compute] : {std::pair{Recompute::none, models::Compute::fp32},
                                           {Recompute::selective, models::Compute::bf16},
                                           {Recompute::full, models::Compute::fp32}}) {
    const std::string name(to_string(recompute));
    SCOPED_TRACE(name);
    Config alone = small("alone " + name);
    alone.precision.accumulate = accum::Accumulation::fixed;
    alone.precision.compute = compute;
    alone.model.dropout = 0.1;
    alone.memory.recompute = recompute;
    alone.optim.clip = 0.5;
    expect_runs(alone, 1);
    for (const int stages : {2, 3}) {
      const Config c = staged(alone, stages, name + std::to_string(stages));
      expect_runs(c, stages);
      expect_same_run(c, alone);
      EXPECT_TRUE(evaluates_alike(c, alone));
    }
  }
}

TEST_F(PipelineRun, TrainsAdaptersAsOneProcessDoes) {
  Config alone = small("alone");
  alone.precision.accumulate = accum::Accumulation::fixed;
  alone.model.lora.adapters = {.rank = 2, .dropout = 0.1};
  expect_runs(alone, 1);
  for (const int stages : {1, 2}) {
    const Config c = staged(alone, stages, "stages" + std::to_string(stages));
    expect_runs(c, 2);
    expect_same_bits(parameters_of(c), parameters_of(alone));
    EXPECT_TRUE(evaluates_alike(c, alone));
  }
}

TEST_F(PipelineRun, IsCloseToOneProcessInSinglePrecision) {
  const Config alone = small("alone");
  expect_runs(alone, 1);
  const Config c = staged(alone, 2, "staged");
  expect_runs(c, 2);
  EXPECT_TRUE(are_close(c, alone));
  Config other = small("other");
  other.run.seed = 2;
  expect_runs(other, 1);
  EXPECT_FALSE(are_close(c, other)) << "another run would be noticed";
}

TEST_F(PipelineRun, TellsOfItsStagesAndOfItsBubble) {
  const Config c = staged(small("run"), 2, "run");
  expect_runs(c, 2);
  std::vector<std::string> reasons;
  for (const auto& event : events_of("dist", c)) reasons.push_back(event["reason"]);
  EXPECT_THAT(reasons, Contains(AllOf(HasSubstr("2 stages: "), HasSubstr(" | "),
                                      HasSubstr("with 4 micro-batches"))));
  for (const auto& step : steps_of(c)) {
    EXPECT_EQ(step["pipeline_bubble_formula"], distributed::bubble_fraction(2, 4));
    EXPECT_GE(step["pipeline_bubble"], 0);
    EXPECT_LT(step["pipeline_bubble"], 1);
  }
}

TEST_F(PipelineRun, ResumesWithOtherStagesWithoutThemAndSharded) {
  Config whole = small("whole");
  whole.precision.accumulate = accum::Accumulation::fixed;
  whole.optim.kind = OptimizerKind::adamw;
  expect_runs(whole, 1);
  Config c = staged(whole, 2, "parts");
  expect_runs(c, 2);
  c.dist.stages = 3;
  c.dist.shard = Shard::optimizer;
  expect_runs(c, 3, {"--resume", "3"});
  expect_same_bits(parameters_of(c), parameters_of(whole));
  c.dist.stages = 1;
  expect_runs(c, 1, {"--resume", "3"});
  expect_same_bits(parameters_of(c), parameters_of(whole));
}

TEST_F(PipelineRun, RefusesStagesThatAreNoRanksAndThoseWithoutABlock) {
  const Config two = staged(small("two"), 2, "two");
  for (const auto& [world, expected] : {std::pair{1, "dist.stages with 1 process"}, {3, "3 ranks"}})
    for (const Program::Result& result : run(two, world)) {
      EXPECT_EQ(result.status, 2);
      EXPECT_THAT(result.errors, HasSubstr(expected));
    }
  for (const Program::Result& result : run(staged(small("four"), 4, "four"), 4)) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.errors, HasSubstr("as the model has blocks (3)"));
  }
}

}  // namespace
}  // namespace accrue::train
