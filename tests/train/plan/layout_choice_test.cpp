#include "train/plan/layout_choice.h"

#include <gmock/gmock.h>

#include "train/plan/layout_example.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using testing::divided_moments;
using ::testing::ElementsAre;
using testing::facts_of_a_billion;
using testing::four_machines;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::whole_state;

/// The name of the fastest layout with so many bytes for tensors on each rank; "none" if none fits.
std::string fastest_with(std::int64_t tensor_bytes) {
  RankMachines machines = four_machines();
  machines.tensor_bytes = tensor_bytes;
  const auto entries = compare_layouts(rank_layouts(), facts_of_a_billion(), machines);
  const std::optional<std::size_t> chosen = fastest(entries);
  return chosen ? name_of(entries[*chosen].layout) : "none";
}

TEST(RankLayouts, AreWhatRanksCanRun) {
  std::vector<std::string> names;
  for (const RankLayout& layout : rank_layouts()) names.push_back(name_of(layout));
  EXPECT_THAT(names,
              ElementsAre("replicas", "replicas, optimizer", "stages", "stages, optimizer",
                          "layered", "layered, optimizer", "layered, all", "layered, offload"));
}

TEST(FastestLayout, IsTheFastestThatFits) {
  EXPECT_EQ(fastest_with(20'000'000'000), "replicas");
  EXPECT_EQ(fastest_with(12'000'000'000), "replicas, optimizer")
      << "replicas alone are faster, and take 16 GB";
  EXPECT_EQ(fastest_with(4'000'000'000), "layered, offload");
  EXPECT_EQ(fastest_with(1'000'000'000), "none");
}

TEST(FastestLayout, IsTheFirstOfThoseAsFast) {
  RankMachines machines = four_machines();
  machines.link = 1e15;  // all replicas in standard order take the time that they compute
  const auto entries = compare_layouts(rank_layouts(), facts_of_a_billion(), machines);
  EXPECT_EQ(fastest(entries), 0U);
}

/// Activations of 1 GB a sample, 0.1 GB with full recomputation, beside 16 GB of state.
LayoutFacts facts_of_large_samples() {
  LayoutFacts facts = facts_of_a_billion();
  facts.modes = {{Recompute::none, 1'000'000'000}, {Recompute::full, 100'000'000}};
  return facts;
}

memory::PlanPoint best_of_replicas(std::int64_t tensor_bytes) {
  RankMachines machines = four_machines();
  machines.tensor_bytes = tensor_bytes;
  return best_point({.state = whole_state}, facts_of_large_samples(), machines).point;
}

TEST(BestPoint, TakesTheLargestMicroBatchThatFits) {
  EXPECT_EQ(best_of_replicas(34'000'000'000), (memory::PlanPoint{16, Recompute::none}));
  EXPECT_EQ(best_of_replicas(20'700'000'000), (memory::PlanPoint{4, Recompute::none}))
      << "16 samples with full recomputation fit, too, and compute a third more";
  EXPECT_EQ(best_of_replicas(17'000'000'000), (memory::PlanPoint{4, Recompute::full}));
}

TEST(BestPoint, HasTheLeastMemoryIfNoneFits) {
  EXPECT_EQ(best_of_replicas(1'000'000'000), (memory::PlanPoint{1, Recompute::full}));
}

TEST(BestPoint, TakesSmallMicroBatchesInAPipeline) {
  const LayoutForecast stages =
      best_point({.state = whole_state, .in_stages = true}, facts_of_a_billion(), four_machines());
  EXPECT_EQ(stages.point.micro_batch, 1) << "fewer of them fill and drain it for longer";
}

TEST(BestPoint, KeepsAStatedMicroBatch) {
  LayoutFacts facts = facts_of_a_billion();
  facts.micro_batch = 2;
  EXPECT_EQ(best_point({.state = whole_state}, facts, four_machines()).point.micro_batch, 2);
}

TEST(NearestFit, IsTheLeastThatFits) {
  RankMachines machines = four_machines();
  machines.disk = {};
  machines.tensor_bytes = 4'600'000'000;
  const std::vector<RankLayout> layouts = rank_layouts();
  const NearestFit nearest = nearest_fit(layouts, facts_of_a_billion(), machines);
  EXPECT_EQ(nearest.ranks, 5) << "16 GB / 5, and two segments of parameters and sums with 0.8 GB, "
                                 "within 97% of 4.6 GB";
  EXPECT_TRUE(nearest.with_a_disk);
  ASSERT_TRUE(nearest.tensor_bytes);
  const auto any_fits_in = [&](std::int64_t bytes) {
    machines.tensor_bytes = bytes;
    return fastest(compare_layouts(layouts, facts_of_a_billion(), machines)).has_value();
  };
  EXPECT_TRUE(any_fits_in(*nearest.tensor_bytes));
  EXPECT_FALSE(any_fits_in(*nearest.tensor_bytes * 98 / 100)) << "the control";
}

TEST(NearestFit, HasNoRanksIfWhatAllHoldIsTooLarge) {
  RankMachines machines = four_machines();
  machines.tensor_bytes = 7'000'000'000;
  EXPECT_FALSE(nearest_fit(std::vector<RankLayout>{{.state = divided_moments}},
                           facts_of_a_billion(), machines)
                   .ranks);
}

TEST(NearestFit, KeepsTheRanksOfANode) {
  RankMachines machines = four_machines();
  machines.nodes = 2;
  machines.node_link = 1e10;
  machines.tensor_bytes = 9'200'000'000;
  const std::vector<RankLayout> layouts{{.state = divided_moments}};
  EXPECT_EQ(nearest_fit(layouts, facts_of_a_billion(), machines).ranks, 10);
}

TEST(LayoutReason, NamesWhatTakesTimeAndMemory) {
  RankMachines machines = four_machines();
  machines.tensor_bytes = 12'000'000'000;
  const auto entries = compare_layouts(rank_layouts(), facts_of_a_billion(), machines);
  EXPECT_THAT(
      reason_of(entries[0], machines),
      AllOf(HasSubstr("does not fit: 14.9 GiB of 11.2 GiB"), HasSubstr("optimizer 7.45 GiB")));
  EXPECT_THAT(reason_of(entries[1], machines),
              AllOf(HasSubstr("computes 97% of the time"), HasSubstr("transfers cost 3%"),
                    Not(HasSubstr("fit"))));
  EXPECT_THAT(reason_of(entries[3], machines), HasSubstr("stages wait for each other"));
  machines.disk = {};
  EXPECT_THAT(
      reason_of(compare_layouts(rank_layouts(), facts_of_a_billion(), machines).back(), machines),
      HasSubstr("--disk"));
}

}  // namespace
}  // namespace accrue::train
