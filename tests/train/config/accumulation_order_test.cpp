#include "train/config/accumulation_order.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "refusal_of.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* run_of_order =
    "[run]\nsteps = 10\n[data]\ntrain = [\"a\"]\n[batch]\ntokens = 256\n[model]\nkind = \"gpt2\"\n";

const std::string as_layered = "memory.accumulation=layered",
                  as_offload = "memory.offload=/mnt/disk",
                  as_standard = "memory.accumulation=standard";

Config parsed(const std::vector<std::string>& overrides) {
  return parse_config(run_of_order, "run.toml", overrides);
}

/// The messages with `order` and `others`, for each way to request the layered order.
std::vector<std::string> refusals(const std::vector<std::string>& others) {
  std::vector<std::string> found;
  for (const std::string& order : {as_layered, as_offload}) {
    std::vector<std::string> overrides = others;
    overrides.push_back(order);
    found.push_back(refusal_of(run_of_order, overrides));
  }
  return found;
}

TEST(AccumulationOrder, IsStandardUnlessRequested) {
  const Config config = parsed({});
  EXPECT_EQ(config.memory.accumulation, AccumulationOrder::automatic);
  EXPECT_THAT(config.memory.offload, IsEmpty());
  EXPECT_FALSE(asks_for_layered(config));
  EXPECT_FALSE(layered_key(config));
  EXPECT_FALSE(asks_for_layered(parsed({as_standard})));
  EXPECT_TRUE(asks_for_layered(parsed({as_layered})));
  EXPECT_TRUE(asks_for_layered(parsed({as_offload})));
  EXPECT_EQ(layered_key(parsed({as_layered}))->statement(), "memory.accumulation = \"layered\"");
  EXPECT_EQ(layered_key(parsed({as_layered, as_offload}))->statement(),
            "memory.offload = \"/mnt/disk\"");
}

/// Only training decides it, so until then nothing is refused for it.
TEST(AccumulationOrder, IsOpenIfThePlaceOfTheStateIs) {
  const std::string automatic = "memory.offload=auto";
  const Config config = parsed({automatic});
  EXPECT_TRUE(config.memory.offload_is_auto());
  EXPECT_FALSE(config.memory.offloads());
  EXPECT_FALSE(layered_key(config));
  EXPECT_TRUE(asks_for_layered(parsed({automatic, as_layered})));
  for (const char* other : {"memory.recompute=full", "run.graphs=true", "lora.rank=4"})
    EXPECT_EQ(refusal_of(run_of_order, {automatic, other}), "accepted") << other;
  EXPECT_TRUE(have_same_order(config, parsed({as_standard})));
  EXPECT_TRUE(have_same_order(parsed({as_offload}), parsed({as_layered})));
  EXPECT_FALSE(have_same_order(config, parsed({as_offload})));
}

/// A model without batch normalisations runs in standard order.
TEST(AccumulationOrder, OfExactBatchNormalisationDependsOnTheModel) {
  Config config;
  config.model.batchnorm = models::BatchNormPolicy::exact;
  EXPECT_FALSE(asks_for_layered(config));
  EXPECT_EQ(layered_key(config)->statement(), "model.batchnorm = \"exact\"");
  EXPECT_FALSE(layered_conflict(config));
  config.run.graphs = true;
  config.precision.compute = models::Compute::fp16;
  EXPECT_FALSE(layered_conflict(config)) << "limits of the requested order alone";
  EXPECT_FALSE(batch_may_change(config));
  EXPECT_FALSE(batch_may_change(parsed({as_layered})));
  EXPECT_TRUE(batch_may_change(parsed({})));
}

TEST(AccumulationOrder, StandardIsRefusedWhereLayeredIsNeeded) {
  const std::string beside_offload = refusal_of(run_of_order, {as_standard, as_offload});
  EXPECT_THAT(beside_offload, HasSubstr("config key memory.accumulation (--memory.accumulation"));
  EXPECT_THAT(beside_offload, HasSubstr("\"auto\" or \"layered\" with memory.offload"));
  EXPECT_THAT(beside_offload, HasSubstr("received \"standard\""));
  EXPECT_THAT(beside_offload, HasSubstr("leaving memory.offload out"));
  EXPECT_THAT(refusal_of(run_of_order, {"model.kind=resnet", "batch.samples=8",
                                        "model.batchnorm=exact", as_standard}),
              HasSubstr("whose statistics are those of all micro-batches"));
}

/// The table of docs/guide/config.md: each row is refused, named by its key.
TEST(AccumulationOrder, LayeredIsRefusedWithWhatItCannotDo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows{
      {{"precision.compute=fp16"}, "precision.compute"},
      {{"run.graphs=true"}, "run.graphs"},
      {{"memory.recompute=full"}, "memory.recompute"},
      {{"memory.recompute=selective"}, "memory.recompute"},
      {{"dist.stages=2"}, "dist.stages"},
      {{"dist.local_steps=4"}, "dist.local_steps"},
      {{"dist.outer.lr=0.7"}, "dist.outer.lr"},
      {{"adapt.batch=noise-scale"}, "adapt.batch"},
      {{"batch.ramp={from = 1, over = 9}", "adapt.lr_rule=adascale"}, "adapt.lr_rule"}};
  for (const auto& [overrides, key] : rows) {
    EXPECT_EQ(refusal_of(run_of_order, overrides), "accepted") << key;
    for (const std::string& message : refusals(overrides)) {
      EXPECT_THAT(message, HasSubstr("config key " + key + " (--" + key.substr(0, key.find('.'))));
      EXPECT_THAT(message, HasSubstr("memory.")) << key;
    }
  }
  for (const char* harmless :
       {"memory.recompute=none", "memory.recompute=auto", "precision.compute=bf16",
        "precision.accumulate=fixed", "adapt.batch=seesaw", "optim.state=bf16", "lora.rank=4",
        "model.freeze=[\"wte\"]"})
    for (const std::string& message : refusals({harmless}))
      EXPECT_EQ(message, "accepted") << harmless;
}

TEST(AccumulationOrder, LayeredIsRefusedWithFoldedGradients) {
  for (const std::vector<std::string>& folded :
       {std::vector<std::string>{"optim.kind=adama", "optim.clip=0"},
        std::vector<std::string>{"optim.kind=sgd", "memory.gradients=optimizer", "optim.clip=0"}}) {
    const std::vector<std::string> messages = refusals(folded);
    EXPECT_THAT(messages[0], HasSubstr("config key memory.accumulation (--memory.accumulation"));
    EXPECT_THAT(messages[1], HasSubstr("config key memory.offload (--memory.offload"));
    for (const std::string& message : messages)
      EXPECT_THAT(message, HasSubstr("try memory.gradients = \"buffer\""));
  }
}

TEST(AccumulationOrder, OffloadingIsRefusedWithWhatThisVersionDoesNotOffload) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows{
      {{"run.device=cuda"}, "run.device"},
      {{"dist.shard=optimizer"}, "dist.shard"},
      {{"dist.compress=bf16"}, "dist.compress"}};
  for (const auto& [overrides, key] : rows) {
    const std::vector<std::string> messages = refusals(overrides);
    EXPECT_EQ(messages[0], "accepted") << key;
    EXPECT_THAT(messages[1], HasSubstr("config key " + key + " (--" + key));
    EXPECT_THAT(messages[1], HasSubstr("with memory.offload = \"/mnt/disk\""));
  }
  EXPECT_EQ(refusals({"run.device=cpu"})[1], "accepted");
}

TEST(AccumulationOrder, IsLayeredIfTheModelIsDividedAndRefusesWhatIsNot) {
  const std::string divided = "dist.shard=all";
  EXPECT_TRUE(asks_for_layered(parsed({divided})));
  EXPECT_EQ(layered_key(parsed({divided}))->statement(), "dist.shard = \"all\"");
  EXPECT_EQ(refusal_of(run_of_order, {divided, as_layered}), "accepted");
  EXPECT_THAT(refusal_of(run_of_order, {divided, as_standard}),
              HasSubstr("\"auto\" or \"layered\" with dist.shard = \"all\""));
  EXPECT_THAT(refusal_of(run_of_order, {divided, as_offload}), HasSubstr("config key dist.shard"));
  const std::vector<std::pair<std::string, std::string>> rows{
      {"run.device=cuda", "run.device"},
      {"memory.offload=auto", "memory.offload"},
      {"precision.compute=fp16", "precision.compute"},
      {"lora.rank=4", "lora.rank"},
      {"model.freeze=[\"wte\"]", "model.freeze"},
      {"observe.histograms=200 steps", "observe.histograms"},
      {"dist.shard_replica=next", "dist.shard_replica"},
      {"dist.compress=bf16", "dist.shard"},
      {"run.graphs=true", "run.graphs"},
      {"dist.stages=2", "dist.stages"},
      {"dist.local_steps=4", "dist.local_steps"}};
  for (const auto& [override, key] : rows) {
    EXPECT_THAT(refusal_of(run_of_order, {override, divided}), HasSubstr("config key " + key))
        << override;
    EXPECT_THAT(refusal_of(run_of_order, {divided, override}), HasSubstr("\"all\"")) << override;
  }
  for (const char* harmless :
       {"precision.compute=fp64", "precision.compute=bf16", "precision.accumulate=fixed",
        "optim.state=int8", "dist.shares=equal", "dist.reduce=overlap"})
    EXPECT_EQ(refusal_of(run_of_order, {divided, harmless}), "accepted") << harmless;
}

/// With tied weights the order of additions depends on it.
TEST(AccumulationOrder, HasToStayOnResumeAndTheFolderMayChange) {
  EXPECT_FALSE(may_change_on_resume("memory.accumulation"));
  EXPECT_TRUE(may_change_on_resume("memory.offload"));
}

TEST(AccumulationOrder, ABudgetOfTheFileNeedsOne) {
  const std::string budget = "memory.offload_budget=40GiB";
  EXPECT_EQ(parsed({as_offload, budget}).memory.offload_budget, "40GiB");
  EXPECT_TRUE(may_change_on_resume("memory.offload_budget"));
  for (const std::vector<std::string>& without :
       {std::vector<std::string>{budget}, std::vector<std::string>{as_layered, budget}}) {
    const std::string message = refusal_of(run_of_order, without);
    EXPECT_THAT(message, HasSubstr("config key memory.offload_budget (--memory.offload_budget"));
    EXPECT_THAT(message, HasSubstr("only with memory.offload = \"FOLDER\""));
  }
  EXPECT_EQ(refusal_of(run_of_order, {"memory.offload_budget=none"}), "accepted");
}

TEST(AccumulationOrder, IsWrittenDownAsOffloadingDecidesIt) {
  const Config config = parsed({as_offload});
  const std::string text = to_toml(config);
  EXPECT_THAT(text, HasSubstr("accumulation = \"layered\"\noffload = \"/mnt/disk\""));
  EXPECT_THAT(differences(config, parse_config(text, "config.toml")), IsEmpty());
  const Config in_memory = parse_config(text, "config.toml", {"memory.offload=\"\""});
  EXPECT_EQ(in_memory.memory.accumulation, AccumulationOrder::layered);
  const auto changed = differences(config, in_memory);
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].key, "memory.offload");
  EXPECT_THAT(to_toml(parsed({})), HasSubstr("accumulation = \"auto\""));
  EXPECT_THAT(to_toml(parsed({})), Not(HasSubstr("layered")));
}

}  // namespace
}  // namespace accrue::train
