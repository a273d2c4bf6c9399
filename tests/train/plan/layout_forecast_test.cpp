#include "train/plan/layout_forecast.h"

#include <gmock/gmock.h>

#include "train/plan/layout_example.h"

namespace accrue::train {
namespace {

using testing::divided_model;
using testing::divided_moments;
using testing::facts_of_a_billion;
using testing::four_machines;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::whole_state;

constexpr std::int64_t kGiga = 1'000'000'000;
constexpr memory::PlanPoint kFours{4, Recompute::none};

LayoutForecast forecast_of_fours(const RankLayout& layout) {
  return forecast_layout(layout, kFours, facts_of_a_billion(), four_machines());
}

TEST(ForecastLayout, HidesTheSumsOfReplicas) {
  const LayoutForecast replicas = forecast_of_fours({.state = whole_state});
  EXPECT_EQ(replicas.micro_batches, 4) << "16 samples a rank";
  EXPECT_DOUBLE_EQ(replicas.compute_seconds, 96);
  EXPECT_DOUBLE_EQ(replicas.transfer.bytes, 6e9) << "2 (n - 1) / n of 4 GB";
  EXPECT_DOUBLE_EQ(replicas.transfer.seconds, 6);
  EXPECT_DOUBLE_EQ(replicas.exposed_seconds, 0) << "the last backward pass takes 16 s";
  EXPECT_DOUBLE_EQ(replicas.seconds(), 96);
  EXPECT_EQ(replicas.bytes.parameters, 4 * kGiga);
  EXPECT_EQ(replicas.bytes.gradients, 4 * kGiga);
  EXPECT_EQ(replicas.bytes.optimizer, 8 * kGiga);
  EXPECT_EQ(replicas.bytes.activations, 4000);
  EXPECT_EQ(replicas.bytes.temporaries, 0);
  EXPECT_TRUE(replicas.fits);
}

TEST(ForecastLayout, ShowsWhatTheLastBackwardDoesNotHide) {
  LayoutFacts facts = facts_of_a_billion();
  RankMachines machines = four_machines();
  facts.chain.first_parameters = kGiga / 4;
  const auto exposed = [&] {
    return forecast_layout({.state = whole_state}, kFours, facts, machines).exposed_seconds;
  };
  EXPECT_DOUBLE_EQ(exposed(), 1.5) << "the first segment's sums are complete last";
  facts.chain.first_parameters = 0;
  machines.link = 1e8;
  EXPECT_DOUBLE_EQ(exposed(), 44) << "60 s, of which a backward pass of 16 s hides a part";
  facts.sums_overlap = false;
  EXPECT_DOUBLE_EQ(exposed(), 60) << "dist.reduce = \"end\"";
}

TEST(ForecastLayout, ReturnsParametersIfMomentsAreDivided) {
  const LayoutForecast divided = forecast_of_fours({.state = divided_moments});
  EXPECT_EQ(divided.bytes.optimizer, 2 * kGiga);
  EXPECT_EQ(divided.bytes.parameters, 4 * kGiga);
  EXPECT_DOUBLE_EQ(divided.transfer.bytes, 6e9);
  EXPECT_DOUBLE_EQ(divided.exposed_seconds, 3) << "after the step, when nothing computes";
  LayoutFacts facts = facts_of_a_billion();
  facts.copies_moments = true;
  const LayoutForecast copied =
      forecast_layout({.state = divided_moments}, kFours, facts, four_machines());
  EXPECT_EQ(copied.bytes.optimizer, 4 * kGiga);
  EXPECT_DOUBLE_EQ(copied.transfer.bytes, 8e9) << "and 8 GB / n to the next rank";
  EXPECT_EQ(forecast_layout({.state = whole_state}, kFours, facts, four_machines()).bytes.total(),
            forecast_of_fours({.state = whole_state}).bytes.total())
      << "the control: nothing is copied if nothing is divided";
}

TEST(ForecastLayout, CountsRecomputationAsOneMoreForwardPass) {
  const auto seconds = [](Recompute recompute) {
    return forecast_layout({.state = whole_state}, {4, recompute}, facts_of_a_billion(),
                           four_machines())
        .compute_seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(Recompute::full), 128);
  EXPECT_DOUBLE_EQ(seconds(Recompute::selective), 96);
}

TEST(ForecastLayout, FillsAndDrainsAPipeline) {
  const LayoutForecast stages = forecast_of_fours({.state = whole_state, .in_stages = true});
  EXPECT_EQ(stages.micro_batches, 16) << "each stage runs all of them";
  EXPECT_DOUBLE_EQ(stages.compute_seconds, 96) << "16 passes of 6 s, a fourth of the model";
  EXPECT_DOUBLE_EQ(stages.waiting_seconds, 18) << "three passes: 3 / (16 + 3) of the time";
  EXPECT_DOUBLE_EQ(stages.exposed_seconds, 6) << "the sums, when all passes are done";
  EXPECT_DOUBLE_EQ(stages.transfer.bytes, 6e9 + 16 * 800) << "activations on, gradients back";
  EXPECT_EQ(stages.bytes.activations, 4000) << "four micro-batches of a fourth of the model";
  EXPECT_EQ(stages.bytes.temporaries, 1600);
  EXPECT_EQ(stages.bytes.optimizer, 8 * kGiga);
  const LayoutForecast both = forecast_of_fours({.state = divided_moments, .in_stages = true});
  EXPECT_EQ(both.bytes.optimizer, 2 * kGiga);
  EXPECT_DOUBLE_EQ(both.exposed_seconds, 6) << "3 s to the owners, 3 s back";
}

TEST(ForecastLayout, IsAsSlowAsTheLargestStage) {
  LayoutFacts facts = facts_of_a_billion();
  facts.chain.blocks = 6;  // 2 + 2 + 1 + 1
  const LayoutForecast uneven =
      forecast_layout({.state = whole_state, .in_stages = true}, kFours, facts, four_machines());
  EXPECT_DOUBLE_EQ(uneven.compute_seconds, 128);
  EXPECT_EQ(uneven.bytes.activations, 5333);
}

TEST(ForecastLayout, WaitsForActivationsOnASlowLink) {
  LayoutFacts facts = facts_of_a_billion();
  facts.chain.cut_bytes = kGiga;
  const LayoutForecast slow =
      forecast_layout({.state = whole_state, .in_stages = true}, kFours, facts, four_machines());
  EXPECT_DOUBLE_EQ(slow.exposed_seconds, 19 * 2 + 6) << "8 s of transfers beside 6 s of computing";
  EXPECT_DOUBLE_EQ(slow.transfer.seconds, 16 * 8 + 6);
}

TEST(ForecastLayout, KeepsAllCutsInLayeredOrder) {
  const LayoutForecast layered =
      forecast_of_fours({.state = whole_state, .order = AccumulationOrder::layered});
  EXPECT_DOUBLE_EQ(layered.compute_seconds, 128);
  EXPECT_DOUBLE_EQ(layered.exposed_seconds, 6) << "the sums are added after the last pass";
  EXPECT_EQ(layered.bytes.temporaries, 16'000) << "16 samples, nine cuts and a gradient";
  EXPECT_EQ(layered.bytes.activations, 1200);
  EXPECT_FALSE(layered.cuts_in_file);
  RankMachines machines = four_machines();
  machines.tensor_bytes = 16 * kGiga + 60'000;
  const LayoutForecast in_file =
      forecast_layout(layered.layout, kFours, facts_of_a_billion(), machines);
  EXPECT_TRUE(in_file.cuts_in_file) << "more than a quarter of what is free";
  EXPECT_EQ(in_file.bytes.temporaries, 0);
}

TEST(ForecastLayout, BringsOffloadedStateTwiceAWindow) {
  const LayoutForecast offloaded = forecast_of_fours(
      {.state = whole_state, .order = AccumulationOrder::layered, .offloads = true});
  ASSERT_TRUE(offloaded.disk);
  EXPECT_DOUBLE_EQ(offloaded.disk->bytes_read, 36e9) << "32 bytes a parameter, and the sums";
  EXPECT_DOUBLE_EQ(offloaded.disk->bytes_written, 20e9);
  EXPECT_DOUBLE_EQ(offloaded.compute_seconds, 128);
  EXPECT_NEAR(offloaded.exposed_seconds, 6 + 4.4, 1e-9)
      << "sums, norm and step; the passes hide theirs";
  EXPECT_EQ(offloaded.bytes.parameters, 4 * kGiga / 10) << "two segments";
  EXPECT_EQ(offloaded.bytes.optimizer, 8 * kGiga / 10);
}

/// The bytes on the wire do not depend on the number of micro-batches.
TEST(ForecastLayout, BringsDividedParametersOnceForAllMicroBatches) {
  const RankLayout layered{.state = divided_model, .order = AccumulationOrder::layered};
  for (const std::int64_t micro : {1, 2, 4, 8}) {
    const LayoutForecast forecast =
        forecast_layout(layered, {micro, Recompute::none}, facts_of_a_billion(), four_machines());
    EXPECT_DOUBLE_EQ(forecast.transfer.bytes, 9e9) << "twice to all, and once to the owners";
    EXPECT_DOUBLE_EQ(forecast.exposed_seconds, 3) << "the sums";
  }
  const LayoutForecast forecast = forecast_of_fours(layered);
  EXPECT_EQ(forecast.bytes.parameters, kGiga + 4 * kGiga / 10) << "its part and two segments";
  EXPECT_EQ(forecast.bytes.gradients, kGiga + 4 * kGiga / 10);
  EXPECT_EQ(forecast.bytes.optimizer, 2 * kGiga);
  RankMachines slow = four_machines();
  slow.link = 1e7;
  EXPECT_DOUBLE_EQ(forecast_layout(layered, kFours, facts_of_a_billion(), slow).exposed_seconds,
                   (300 - 32) + (300 - 96) + 300);
}

TEST(ForecastLayout, FitsIfNoRankHasRoomForTheWholeParameters) {
  const RankLayout layered{.state = divided_model, .order = AccumulationOrder::layered};
  RankMachines machines = four_machines();
  machines.ranks = machines.nodes = 16;
  machines.tensor_bytes = 3 * kGiga;
  const LayoutForecast forecast = forecast_layout(layered, kFours, facts_of_a_billion(), machines);
  EXPECT_EQ(forecast.bytes.parameters, kGiga / 4 + 4 * kGiga / 10);
  EXPECT_TRUE(forecast.fits) << "of 4 GB of parameters, which a rank draws and loads in parts";
}

TEST(ForecastLayout, HalvesTransfersWithTwiceTheLink) {
  RankMachines machines = four_machines(), twice = machines;
  twice.link *= 2;
  for (const bool in_stages : {false, true})
    for (const ShardedState& state : sharded_states) {
      const RankLayout layout{.state = state, .in_stages = in_stages};
      const auto seconds = [&](const RankMachines& on) {
        return forecast_layout(layout, kFours, facts_of_a_billion(), on).transfer.seconds;
      };
      EXPECT_DOUBLE_EQ(seconds(twice), seconds(machines) / 2);
      twice.flops *= 2;
      EXPECT_DOUBLE_EQ(seconds(twice), seconds(machines) / 2) << "the control: nothing computes";
    }
}

TEST(ForecastLayout, LeavesTheMarginOfAPlan) {
  RankMachines machines = four_machines();
  const auto fits = [&](double bytes) {
    machines.tensor_bytes = static_cast<std::int64_t>(bytes);
    return forecast_layout({.state = whole_state}, kFours, facts_of_a_billion(), machines).fits;
  };
  constexpr double needed = 16e9 + 4000;
  EXPECT_TRUE(fits(needed / 0.97 + 1));
  EXPECT_FALSE(fits(needed / 0.97 - 1));
}

TEST(LayoutObstacle, IsWhatRanksCannotRun) {
  const LayoutFacts facts = facts_of_a_billion();
  RankMachines machines = four_machines();
  for (const bool in_stages : {false, true})
    EXPECT_THAT(obstacle_of({.in_stages = in_stages}, facts, machines), IsEmpty());
  machines.ranks = machines.nodes = 9;
  EXPECT_THAT(obstacle_of({.in_stages = true}, facts, machines),
              HasSubstr("8 blocks for 9 stages"));
  machines.ranks = machines.nodes = 65;
  EXPECT_THAT(obstacle_of({}, facts, machines), HasSubstr("64 samples for 65 ranks"));
}

TEST(LayoutObstacle, IsWhatArithmeticDoesNotKnow) {
  LayoutFacts facts = facts_of_a_billion();
  RankMachines machines = four_machines();
  const RankLayout layered{.order = AccumulationOrder::layered};
  const RankLayout offloaded{.order = AccumulationOrder::layered, .offloads = true};
  EXPECT_THAT(obstacle_of(layered, facts, machines), IsEmpty());
  EXPECT_THAT(obstacle_of(offloaded, facts, machines), IsEmpty());
  machines.disk = {};
  EXPECT_THAT(obstacle_of(offloaded, facts, machines), HasSubstr("--disk"));
  EXPECT_THAT(obstacle_of(layered, facts, machines), IsEmpty());
  facts.chain = {};
  EXPECT_THAT(obstacle_of(layered, facts, machines), HasSubstr("cuts"));
  EXPECT_THAT(obstacle_of({}, facts, machines), IsEmpty());
}

}  // namespace
}  // namespace accrue::train
