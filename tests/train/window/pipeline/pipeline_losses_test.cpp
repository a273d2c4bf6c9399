// Several losses with separate denominators over a pipeline's stages, and over local steps.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "accrue/train/config.h"
#include "accrue/train/trainer.h"
#include "support/errors.h"
#include "support/tolerance.h"
#include "train/window/one_graph.h"
#include "train/window/pipeline/stages.h"

namespace accrue::train::stages {
namespace {

using ::testing::HasSubstr;

/// The gradients of both means over the whole batch, in one graph of libtorch.
std::vector<at::Tensor> one_graph_of_two_losses(const std::vector<batch::Range>& kept) {
  Layers model({.two_losses = true});
  return testing::one_graph(model, make_loader({}), kept).gradients;
}

double gradient_error(const StageOutcome& outcome, const std::vector<at::Tensor>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, accrue::testing::relative_error(outcome.gradients.at(i), expected[i]));
  return worst;
}

TEST(PipelineLosses, GivesEachOfSeveralLossesItsDenominator) {
  const PlantedFaults two{.two_losses = true};
  const StageOutcome alone = run_alone(two, accum::Accumulation::fp64);
  const std::vector<at::Tensor> expected = one_graph_of_two_losses({{0, kPipelineSamples}});
  EXPECT_LT(gradient_error(alone, expected), 1e-12);
  for (const std::int64_t stages : {2, 3}) {
    const std::vector<StageOutcome> all = run_stages(two, accum::Accumulation::fp64, stages);
    expect_equal(all, alone);
    for (const StageOutcome& stage : all) EXPECT_EQ(stage.run.losses, alone.run.losses);
  }
  const PlantedFaults forgets{.two_losses = true, .forgets_one = true};
  for (const StageOutcome& stage : run_stages(forgets, accum::Accumulation::fp64, 2))
    EXPECT_GT(gradient_error(stage, expected), 1e-3) << "what the comparison is to notice";
}

/// The others' factors depend on the remaining samples, so they run again.
TEST(PipelineLosses, OfSeveralLossesFactorsAreWithoutWhatIsLeftOut) {
  const PlantedFaults faults{.losses = {2, 9}, .two_losses = true};
  const StageOutcome alone = run_alone(faults, accum::Accumulation::fp64);
  const std::vector<at::Tensor> expected = one_graph_of_two_losses({{0, 2}, {4, 8}, {10, 12}});
  EXPECT_LT(gradient_error(alone, expected), 1e-12);
  const std::vector<StageOutcome> stages = run_stages(faults, accum::Accumulation::fp64, 3);
  expect_equal(stages, alone);
  for (const StageOutcome& stage : stages) EXPECT_EQ(stage.run.losses, alone.run.losses);
}

/// Each rank would need the weights of windows that it does not read.
TEST(LocalSteps, RefuseSeveralLosses) {
  constexpr std::size_t kRanks = 2;
  std::vector<std::string> refusals(kRanks);
  testing::run_thread_ranks(kRanks, [&](std::size_t rank, const auto& group) {
    Config config;
    config.run.out = ::testing::TempDir() + "accrue_local_losses";
    config.run.steps = 2;
    config.batch = {.samples = 4, .micro = 2};
    config.precision.compute = models::Compute::fp64;
    config.dist.local_steps = 2;
    Trainer trainer(config, std::make_unique<Layers>(PlantedFaults{.two_losses = true}),
                    std::make_shared<PipelineSamples>(), nullptr, group);
    refusals[rank] = accrue::testing::usage_message([&] { trainer.preview(); });
  });
  for (const std::string& refusal : refusals)
    EXPECT_THAT(refusal, HasSubstr("dist.local_steps with 2 ranks: expected one loss"));
}

}  // namespace
}  // namespace accrue::train::stages
