#include "train/plan/offload_choice.h"

#include <gmock/gmock.h>

#include <string>

#include "accrue/core/error.h"
#include "train/checkpoint/resume.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kMebi = std::int64_t{1} << 20;

OffloadFacts facts_with_state(std::int64_t state_mebi) {
  return {.state_bytes = state_mebi * kMebi,
          .sample_bytes = 10 * kMebi,
          .limit_bytes = 100 * kMebi,
          .is_budget = true,
          .folder = "/mnt/disk"};
}

TEST(DecideOffload, KeepsInMemoryWhatFitsWithASample) {
  const OffloadDecision decision = decide_offload(facts_with_state(90));
  EXPECT_FALSE(decision.offloads);
  EXPECT_THAT(decision.reason,
              AllOf(HasSubstr("a state of 90.0 MiB and 10.0 MiB for a sample fit into the 100 MiB "
                              "that memory.budget leaves for tensors"),
                    HasSubstr("it stays in memory")));
}

TEST(DecideOffload, OffloadsWhatDoesNotFit) {
  OffloadFacts facts = facts_with_state(91);
  EXPECT_TRUE(decide_offload(facts).offloads);
  facts.is_budget = false;
  EXPECT_THAT(decide_offload(facts).reason,
              AllOf(HasSubstr("do not fit into the 100 MiB of memory"),
                    HasSubstr("offloaded to /mnt/disk")));
}

TEST(DecideOffload, KeepsInMemoryWhatCannotBeOffloaded) {
  OffloadFacts facts = facts_with_state(91);
  facts.obstacle = "precision.compute: received \"fp16\"";
  const OffloadDecision decision = decide_offload(facts);
  EXPECT_FALSE(decision.offloads);
  EXPECT_THAT(decision.reason, HasSubstr("cannot be offloaded: precision.compute: received"));
  facts.state_bytes.reset();
  EXPECT_FALSE(decide_offload(facts).offloads);
  EXPECT_THAT(decide_offload(facts).reason, HasSubstr("does not determine the model's shape"));
}

class ChooseOffload : public testing::TinyRun {
 protected:
  /// The state of the model takes about 0.6 MiB.
  Config automatic(const std::string& budget) const {
    Config c = config();
    c.run.device = Device::cpu;
    c.memory.offload = "auto";
    c.memory.budget = budget;
    return c;
  }
  /// The reason why a state that does not fit stays in memory.
  static std::string reason_in_memory(const Config& c, std::int64_t ranks = 1) {
    const OffloadChoice choice = choose_offload(c, ranks);
    EXPECT_THAT(choice.config.memory.offload, IsEmpty());
    EXPECT_THAT(choice.reason, HasSubstr("do not fit"));
    return choice.reason;
  }
};

TEST_F(ChooseOffload, LeavesAStatedPlaceAlone) {
  for (const std::string& place : {std::string(), folder_.string()}) {
    Config c = config();
    c.memory.offload = place;
    const OffloadChoice choice = choose_offload(c, 1);
    EXPECT_EQ(choice.config.memory.offload, place);
    EXPECT_EQ(choice.config.memory.accumulation, AccumulationOrder::automatic);
    EXPECT_THAT(choice.reason, IsEmpty());
  }
}

TEST_F(ChooseOffload, StaysInMemoryInStandardOrderIfTheStateFits) {
  const OffloadChoice choice = choose_offload(automatic("1GiB"), 1);
  EXPECT_THAT(choice.config.memory.offload, IsEmpty());
  EXPECT_EQ(choice.config.memory.accumulation, AccumulationOrder::standard);
  EXPECT_THAT(choice.reason, HasSubstr("fit into the"));
  Config layered = automatic("1GiB");
  layered.memory.accumulation = AccumulationOrder::layered;
  EXPECT_EQ(choose_offload(layered, 1).config.memory.accumulation, AccumulationOrder::layered);
}

TEST_F(ChooseOffload, NamesWhatPreventsOffloading) {
  const Config tight = automatic("100KiB");
  Config c = tight;
  c.memory.recompute = Recompute::full;
  EXPECT_THAT(reason_in_memory(c), HasSubstr("memory.recompute: expected \"none\" or \"auto\""));
  c = tight;
  c.optim.kind = OptimizerKind::adama;
  c.optim.clip = 0;
  EXPECT_THAT(reason_in_memory(c), HasSubstr("gradients that are folded into the optimizer"));
  c = tight;
  c.memory.accumulation = AccumulationOrder::standard;
  EXPECT_THAT(reason_in_memory(c), HasSubstr("memory.accumulation: expected"));
  EXPECT_THAT(reason_in_memory(tight, 2), HasSubstr("2 ranks"));
}

TEST_F(ChooseOffload, DoesNotGuessTheSizeOfAModelInAFile) {
  Config c = automatic("100KiB");
  c.model.kind = ModelKind::torchscript;
  const OffloadChoice choice = choose_offload(c, 1);
  EXPECT_THAT(choice.config.memory.offload, IsEmpty());
  EXPECT_THAT(choice.reason, HasSubstr("does not determine the model's shape"));
}

TEST_F(ChooseOffload, KeepsTheOrderOfARunThatContinues) {
  Config begun = config();
  begun.run.device = Device::cpu;
  begun.memory.offload = folder_.string();
  EXPECT_EQ(with_order_of_run(automatic("none"), begun).memory.accumulation,
            AccumulationOrder::layered);
  begun.memory.offload.clear();
  const Config in_memory = with_order_of_run(automatic("100KiB"), begun);
  EXPECT_EQ(in_memory.memory.accumulation, AccumulationOrder::standard);
  EXPECT_NO_THROW(check_config_unchanged(begun, in_memory));
  EXPECT_THAT(reason_in_memory(in_memory), HasSubstr("memory.accumulation"));
  Config layered = in_memory;
  layered.memory.accumulation = AccumulationOrder::layered;
  EXPECT_THROW(check_config_unchanged(begun, layered), Error);
  Config stated = config();
  stated.memory.accumulation = AccumulationOrder::layered;
  EXPECT_EQ(with_order_of_run(stated, begun).memory.accumulation, AccumulationOrder::layered);
}

}  // namespace
}  // namespace accrue::train
