#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/core/error.h"
#include "accrue/train/config.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Config config_of(const std::vector<std::string>& overrides) {
  return parse_config("[run]\nsteps = 10\n[data]\ntrain = [\"a\"]\n[batch]\ntokens = 4096\n",
                      "run.toml", overrides);
}

std::string words_of_refusal(const std::vector<std::string>& overrides, std::int64_t ranks = 1) {
  try {
    with_whole_batch(config_of(overrides), ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "accepted";
}

TEST(WholeBatch, IsMicroBatchesTimesTheirSamplesTimesTheRanks) {
  const Config stated = config_of({"batch.micro_batches=8", "batch.micro=4"});
  EXPECT_EQ(stated.batch.tokens, std::nullopt) << "an override takes the place of the file's";
  EXPECT_EQ(stated.batch.samples, std::nullopt);
  for (const std::int64_t ranks : {1, 2, 3}) {
    const Config whole = with_whole_batch(stated, ranks);
    EXPECT_EQ(whole.batch.samples, 8 * 4 * ranks);
    EXPECT_EQ(whole.batch.micro_batches, std::nullopt);
    EXPECT_EQ(whole.batch.micro, 4);
    EXPECT_TRUE(differences(whole, with_whole_batch(whole, 5)).empty());
  }
}

TEST(WholeBatch, OfAPipelineCountsItsStagesOnce) {
  const Config stages = config_of({"batch.micro_batches=8", "batch.micro=4", "dist.stages=2"});
  EXPECT_EQ(with_whole_batch(stages, 2).batch.samples, 32);
}

TEST(WholeBatch, StatedOtherwiseStays) {
  const Config tokens = config_of({"batch.micro=4"});
  EXPECT_TRUE(differences(tokens, with_whole_batch(tokens, 3)).empty());
}

TEST(WholeBatch, OfARunThatGoesOnWithOtherRanksIsAnother) {
  const Config stated = config_of({"batch.micro_batches=8", "batch.micro=4"});
  const auto changed = differences(with_whole_batch(stated, 1), with_whole_batch(stated, 2));
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].key, "batch.samples");
  EXPECT_FALSE(may_change_on_resume(changed[0].key));
}

TEST(MicroBatches, ReadBackUntilRanksAreKnown) {
  const Config stated = config_of({"batch.micro_batches=8", "batch.micro=4"});
  EXPECT_THAT(to_toml(stated), HasSubstr("micro_batches = 8"));
  EXPECT_TRUE(differences(stated, parse_config(to_toml(stated), "config.toml")).empty());
}

TEST(MicroBatches, NeedTheirSamples) {
  for (const std::vector<std::string>& micro :
       {std::vector<std::string>{"batch.micro_batches=8"},
        std::vector<std::string>{"batch.micro_batches=8", "batch.micro=auto"}})
    EXPECT_THAT(words_of_refusal(micro),
                AllOf(HasSubstr("config key batch.micro_batches (--batch.micro_batches=8)"),
                      HasSubstr("batch.micro = 4")));
  EXPECT_THAT(words_of_refusal({"batch.micro_batches=8", "batch.micro=4", "batch.samples=32"}),
              HasSubstr("exactly one of"));
}

TEST(MicroBatches, MakeABatchThatCanBe) {
  const std::vector<std::string> largest{"batch.micro_batches=1000000", "batch.micro=1000"};
  EXPECT_EQ(words_of_refusal(largest), "accepted");
  EXPECT_THAT(words_of_refusal(largest, 2),
              AllOf(HasSubstr("at most 1_000_000_000 samples"),
                    HasSubstr("1000000 micro-batches of 1000 samples on each of 2 ranks")));
  EXPECT_THAT(words_of_refusal({"batch.micro_batches=1000000000", "batch.micro=1000000000"}),
              HasSubstr("at most 1_000_000_000 samples"));
}

/// Following the advice must not lead to a refusal.
TEST(MicroBatches, AreAdvisedToBeStatedWithTheirBatch) {
  EXPECT_EQ(micro_batch_advice(config_of({"batch.samples=32", "batch.micro=8"}), "4"),
            "batch.micro = 4");
  const Config whole = with_whole_batch(config_of({"batch.micro_batches=8", "batch.micro=4"}), 2);
  EXPECT_EQ(micro_batch_advice(whole, "\"auto\""),
            "batch.samples = 64 and batch.micro = \"auto\" in place of batch.micro_batches");
  EXPECT_EQ(words_of_refusal({"batch.samples=64", "batch.micro=auto"}), "accepted");
  EXPECT_NE(words_of_refusal({"batch.micro_batches=8", "batch.micro=auto"}), "accepted");
}

}  // namespace
}  // namespace accrue::train
