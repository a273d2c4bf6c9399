#include "train/measure/rank_plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// 1.3 billion parameters in fp32, a batch of 256 samples of 2,048 tokens.
Config large_gpt2(const std::vector<std::string>& overrides = {}) {
  return parse_config(
      "[run]\nsteps = 100\n[data]\ntrain = [\"nothing-there.bin\"]\n[batch]\ntokens = 524288\n"
      "[model]\nlayers = 24\nheads = 16\nwidth = 2048\ncontext = 2048\nvocab = 50257\n",
      "large.toml", overrides);
}

/// Eight ranks of 24 GiB and 400 TFLOP/s on machines of their own, with 25 Gbit/s between them.
RankPlanOptions stated_machines() {
  return {.ranks = 8, .memory_bytes = std::int64_t{24} << 30, .link = 3.125e9, .flops = 4e14};
}

const LayoutEntry& entry_named(const RankPlan& plan, const std::string& name) {
  return *std::ranges::find_if(
      plan.entries, [&](const LayoutEntry& entry) { return name_of(entry.layout) == name; });
}

std::string keys_of(const RankPlan& plan) {
  std::string text;
  for (const KeyToSet& key : plan.keys) text += key.key + "=" + key.value + ";";
  return text;
}

std::string refusal_of_plan(const Config& config, const RankPlanOptions& options) {
  try {
    plan_ranks(config, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "accepted";
}

TEST(PlanRanks, ComparesLayoutsByArithmetic) {
  const RankPlan plan = plan_ranks(large_gpt2(), stated_machines());
  EXPECT_EQ(plan.entries.size(), rank_layouts().size());
  EXPECT_FALSE(plan.flops_are_measured);
  EXPECT_FALSE(plan.node_link_is_measured);
  EXPECT_EQ(plan.batch_samples, 256);
  EXPECT_EQ(plan.machines.nodes, 8);
  const auto bytes = static_cast<double>(plan.parameters) * 4;
  const LayoutForecast& replicas = entry_named(plan, "replicas").forecast.value();
  EXPECT_DOUBLE_EQ(replicas.transfer.bytes, 2 * 7.0 / 8 * bytes);
  EXPECT_DOUBLE_EQ(replicas.transfer.seconds, replicas.transfer.bytes / 3.125e9);
  EXPECT_EQ(replicas.point.recompute, Recompute::full) << "16 of the 24 GiB are state";
  EXPECT_EQ(name_of(plan.best().layout), "replicas, optimizer");
  EXPECT_EQ(plan.best().point.recompute, Recompute::none) << "there is room for it";
  EXPECT_THAT(keys_of(plan), HasSubstr("dist.shard=\"optimizer\";batch.micro="));
  EXPECT_THAT(keys_of(plan), AllOf(Not(HasSubstr("dist.stages")), Not(HasSubstr("recompute"))));
  EXPECT_THAT(entry_named(plan, "layered, offload").obstacle, HasSubstr("--disk"));
}

TEST(PlanRanks, HalvesTransfersWithTwiceTheLink) {
  RankPlanOptions twice = stated_machines();
  twice.link = 2 * *twice.link;
  const RankPlan slow = plan_ranks(large_gpt2(), stated_machines()),
                 fast = plan_ranks(large_gpt2(), twice);
  for (const char* name : {"replicas", "replicas, optimizer"})
    EXPECT_DOUBLE_EQ(entry_named(fast, name).forecast->transfer.seconds,
                     entry_named(slow, name).forecast->transfer.seconds / 2)
        << name;
}

TEST(PlanRanks, NamesTheKeysThatDiffer) {
  const RankPlan plan =
      plan_ranks(large_gpt2({"dist.stages=8", "memory.accumulation=standard", "batch.micro=1"}),
                 stated_machines());
  EXPECT_EQ(keys_of(plan), "dist.shard=\"optimizer\";dist.stages=1;");
  const RankPlan same =
      plan_ranks(large_gpt2({"dist.shard=optimizer", "batch.micro=1"}), stated_machines());
  EXPECT_THAT(same.keys, IsEmpty());
}

TEST(PlanRanks, LeavesOutWhatRanksRefuse) {
  const RankPlan plan = plan_ranks(large_gpt2({"memory.recompute=full"}), stated_machines());
  EXPECT_FALSE(entry_named(plan, "layered").forecast);
  EXPECT_THAT(entry_named(plan, "layered").obstacle, HasSubstr("memory.recompute"));
  EXPECT_TRUE(entry_named(plan, "replicas").forecast);
  EXPECT_GT(plan.outside_bytes, 0) << "for the program itself";
  EXPECT_EQ(plan_ranks(large_gpt2({"run.device=cuda"}), stated_machines()).outside_bytes, 0)
      << "a device holds tensors alone";
}

TEST(PlanRanks, AddsADiskForOffloadedState) {
  RankPlanOptions options = stated_machines();
  options.memory_bytes = std::int64_t{4} << 30;
  EXPECT_THAT(refusal_of_plan(large_gpt2(), options), HasSubstr("--disk"));
  options.disk = 2e9;
  const RankPlan plan = plan_ranks(large_gpt2(), options);
  EXPECT_EQ(name_of(plan.best().layout), "layered, offload");
  EXPECT_THAT(keys_of(plan), HasSubstr("memory.offload=\"FOLDER\";"));
}

TEST(PlanRanks, NamesTheNearestMemoryThatFits) {
  RankPlanOptions options = stated_machines();
  options.memory_bytes = std::int64_t{12} << 30;
  EXPECT_THAT(refusal_of_plan(large_gpt2({"memory.recompute=full"}), options),
              AllOf(HasSubstr("--ranks "), HasSubstr("--memory \""), HasSubstr("12.0 GiB")));
  options.memory_bytes = std::int64_t{4} << 30;
  EXPECT_THAT(refusal_of_plan(large_gpt2(), options),
              AllOf(HasSubstr("--ranks 10"), HasSubstr("--memory \"")))
      << "no rank needs room for all parameters";
}

TEST(PlanRanks, RefusesOptionsThatDoNotGoTogether) {
  const auto refusal = [](auto change) {
    RankPlanOptions options = stated_machines();
    change(options);
    return refusal_of_plan(large_gpt2(), options);
  };
  EXPECT_EQ(refusal([](RankPlanOptions&) {}), "accepted") << "the control";
  EXPECT_THAT(refusal([](RankPlanOptions& o) { o.nodes = 3; }), HasSubstr("--nodes 2 or 4"));
  EXPECT_THAT(refusal([](RankPlanOptions& o) { o.nodes = 16; }), HasSubstr("--nodes 8"));
  EXPECT_THAT(refusal([](RankPlanOptions& o) { o.ranks = 1; }), HasSubstr("--ranks 2"));
  EXPECT_THAT(refusal([](RankPlanOptions& o) { o.memory_bytes = 0; }), HasSubstr("--memory 24GiB"));
  EXPECT_THAT(refusal([](RankPlanOptions& o) { o.link.reset(); }), HasSubstr("--link 25Gbit/s"));
  EXPECT_THAT(refusal([](RankPlanOptions& o) { o.nodes = 1; }), HasSubstr("--node-link"));
  EXPECT_THAT(refusal([](RankPlanOptions& o) { o.node_link = 1e10; }), HasSubstr("--nodes"));
}

TEST(PlanRanks, RefusesWhatNoRanksCanRun) {
  EXPECT_THAT(refusal_of_plan(large_gpt2({"optim.kind=adama", "optim.clip=0"}), stated_machines()),
              HasSubstr("optim.kind"));
  EXPECT_THAT(refusal_of_plan(large_gpt2({"dist.local_steps=4"}), stated_machines()),
              HasSubstr("dist.local_steps"));
  EXPECT_THAT(refusal_of_plan(large_gpt2({"dist.compress=int8"}), stated_machines()),
              HasSubstr("dist.compress"));
}

TEST(PlanRanks, RefusesMoreRanksThanSamplesAndBlocks) {
  RankPlanOptions options = stated_machines();
  options.ranks = 32;
  EXPECT_THAT(refusal_of_plan(large_gpt2({"batch.tokens=16384"}), options),
              HasSubstr("a batch of 8 samples for 32 ranks"));
  options.ranks = 12;
  const RankPlan stages = plan_ranks(large_gpt2({"batch.tokens=16384"}), options);
  EXPECT_EQ(name_of(stages.best().layout), "stages") << "the control";
  EXPECT_THAT(keys_of(stages), HasSubstr("dist.stages=12;"));
}

TEST(PlanRanks, StatesTheLinkWithinANode) {
  RankPlanOptions options = stated_machines();
  options.nodes = 2;
  options.node_link = 1e11;
  const RankPlan plan = plan_ranks(large_gpt2(), options);
  EXPECT_FALSE(plan.node_link_is_measured);
  const double slow = entry_named(plan, "replicas").forecast->transfer.seconds;
  options.link = 1e12;
  const RankPlan fast_between = plan_ranks(large_gpt2(), options);
  EXPECT_DOUBLE_EQ(entry_named(fast_between, "replicas").forecast->transfer.seconds,
                   slow * 3.125e9 / 1e11)
      << "then the link within a node is the slower one";
}

}  // namespace
}  // namespace accrue::train
