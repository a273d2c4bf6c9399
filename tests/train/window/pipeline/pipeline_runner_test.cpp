// A pipeline's stages compared with one process: the same bits, also after failures.
#include "train/window/pipeline/pipeline_runner.h"

#include <gmock/gmock.h>

#include "train/window/pipeline/pipeline_report.h"
#include "train/window/pipeline/stages.h"

namespace accrue::train::stages {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PipelineRunner, GivesTheBitsOfOneProcess) {
  for (const auto accumulation : kAccumulations) {
    const StageOutcome alone = run_alone({}, accumulation);
    for (const std::int64_t stages : {2, 3, 4}) {
      SCOPED_TRACE(std::string(to_string(accumulation)) + ", " + std::to_string(stages));
      expect_equal(run_stages({}, accumulation, stages), alone);
    }
  }
}

TEST(PipelineRunner, LeavesOutALossThatIsNotFiniteOnAllStages) {
  const PlantedFaults faults{.losses = {2, 9}};
  const std::vector<StageOutcome> stages = run_stages(faults, accum::Accumulation::fp64, 3);
  expect_equal(stages, run_alone(faults, accum::Accumulation::fp64));
  EXPECT_EQ(stages[0].run.quarantined, 2);
  EXPECT_THAT(told_by_all(stages),
              ElementsAre(HasSubstr("samples 2 to 3"), HasSubstr("samples 8 to 9")));
  EXPECT_EQ(stages[0].run.retries, 0) << "all know of it before the backward";
}

/// A gradient of a weight, which one stage sees, and of activations, which earlier stages see too.
TEST(PipelineRunner, LeavesOutAGradientThatIsNotFiniteOnAnyStage) {
  for (const bool spreads : {false, true})
    for (const auto accumulation : kAccumulations)
      for (const std::int64_t layer : {0, 3}) {
        SCOPED_TRACE(std::string(to_string(accumulation)) + ", layer " + std::to_string(layer) +
                     (spreads ? ", spreads" : ""));
        const PlantedFaults faults{
            .losses = {}, .gradients = {{4, layer}, {11, layer}}, .spreads = spreads};
        const std::vector<StageOutcome> stages = run_stages(faults, accumulation, 2);
        expect_equal(stages, run_alone(faults, accumulation));
        EXPECT_EQ(stages[0].run.quarantined, 2);
        EXPECT_THAT(told_by_all(stages),
                    ElementsAre(HasSubstr("samples 4 to 5"), HasSubstr("samples 10 to 11")));
        EXPECT_LE(stages[0].run.retries, 2) << "one to look, one without what was found";
      }
}

TEST(PipelineRunner, EnlargesUnitsOfFixedPointAsOneProcessDoes) {
  for (const std::int64_t layer : {0, 3}) {
    const PlantedFaults faults{.large = {{6, layer}}};
    const std::vector<StageOutcome> stages = run_stages(faults, accum::Accumulation::fixed, 2);
    expect_equal(stages, run_alone(faults, accum::Accumulation::fixed));
    EXPECT_EQ(stages[0].run.retries, 1);
  }
}

/// A micro-batch that is left out changes no unit: not even if one stage finds it large and the
/// other one bad.
TEST(PipelineRunner, ABadMicroBatchDoesNotEnlargeUnitsOfOtherStages) {
  const PlantedFaults faults{.losses = {}, .gradients = {{6, 0}}, .large = {{6, 3}}};
  const std::vector<StageOutcome> stages = run_stages(faults, accum::Accumulation::fixed, 2);
  const StageOutcome alone = run_alone(faults, accum::Accumulation::fixed);
  expect_equal(stages, alone);
  EXPECT_EQ(stages[0].run.quarantined, 1);
}

TEST(PipelineRunner, EndsOnAllStagesWhereTooManyAreNotFinite) {
  const PlantedFaults faults{.losses = {2, 9}};
  for (const StageOutcome& stage : run_stages(faults, accum::Accumulation::fp64, 2, 0))
    EXPECT_THAT(stage.run.lost_reason, HasSubstr("samples 2 to 3"));
}

/// All samples of micro-batch 1, and one of micro-batch 4.
TEST(PipelineRunner, LeavesOutSamplesThatCannotBeRead) {
  const PlantedFaults faults{.losses = {6}, .unreadable = {2, 3, 9}};
  for (const std::int64_t stages : {2, 3}) {
    const std::vector<StageOutcome> all = run_stages(faults, accum::Accumulation::fp64, stages);
    expect_equal(all, run_alone(faults, accum::Accumulation::fp64));
    EXPECT_EQ(all[0].run.tokens, 9 * kPipelineLength);
    EXPECT_EQ(all[0].run.weight, 7 * kPipelineLength) << "samples 6 and 7 are quarantined besides";
    std::vector<std::int64_t> told;
    for (const StageOutcome& stage : all)
      for (const batch::UnreadableSample& sample : stage.run.unreadable)
        told.push_back(sample.sample_id);
    EXPECT_THAT(told, ElementsAre(2, 3, 9)) << "by one stage";
  }
  const PlantedFaults many{.losses = {}, .unreadable = {2, 3, 9}};
  for (const StageOutcome& stage : run_stages(many, accum::Accumulation::fp64, 2, 0.2))
    EXPECT_THAT(stage.run.lost_reason, HasSubstr("file 9 is damaged"));
}

TEST(PipelineReport, BubbleIsThePartOfAllTimeThatIsNotWork) {
  WindowRun window;
  window.micro_batches = 4;
  window.seconds = 2;
  StepReport report;
  PipelineReport(2, "a | b").tell(window, 3, report);  // with 2 stages, 2 s each
  EXPECT_DOUBLE_EQ(report.pipeline_bubble.value(), 0.25);
  EXPECT_DOUBLE_EQ(report.pipeline_bubble_formula.value(), 0.2);
}

}  // namespace
}  // namespace accrue::train::stages
