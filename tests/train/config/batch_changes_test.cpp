#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "train/config/config_json.h"
#include "train/config/refusal_of.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string with_batch(const std::string& batch, const std::string& more = "") {
  return "[run]\nsteps = 20\n[data]\ntrain = [\"a.txt\"]\n[batch]\n" + batch + "\n" + more;
}

constexpr const char* four_then_eight =
    "micro = 2\nschedule = [{at = 0, micro_batches = 4}, {at = 8, micro_batches = 8}]";

TEST(BatchSchedule, IsReadWithItsFirstStageAsTheBatch) {
  const Config config = parse_config(with_batch(four_then_eight), "run.toml");
  ASSERT_EQ(config.batch.schedule.size(), 2);
  EXPECT_EQ(config.batch.micro_batches, 4);
  EXPECT_EQ(config.batch.schedule[1].at, (Duration{8, Duration::Unit::steps}));
  EXPECT_EQ(config.batch.schedule[1].size, 8);
  EXPECT_EQ(config.batch.unit(), BatchUnit::micro_batches);
}

TEST(BatchSchedule, BecomesSamplesOfAllRanks) {
  const Config whole = with_whole_batch(parse_config(with_batch(four_then_eight), "run.toml"), 3);
  EXPECT_EQ(whole.batch.samples, 4 * 2 * 3);
  EXPECT_EQ(whole.batch.schedule[0].size, 4 * 2 * 3);
  EXPECT_EQ(whole.batch.schedule[1].size, 8 * 2 * 3);
  EXPECT_EQ(whole.batch.schedule_unit, BatchUnit::samples);
}

TEST(BatchSchedule, ReadsBackFromTomlAndFromJson) {
  for (const char* batch :
       {four_then_eight, "tokens = 256\nschedule = [{at = \"1%\", tokens = 512}]",
        "samples = 64\nramp = {from = 8, over = \"10%\", by = \"doubling\"}"}) {
    const Config config = parse_config(with_batch(batch), "run.toml");
    const Config from_toml = parse_config(to_toml(config), "config.toml");
    const Config from_json =
        config_from_json(nlohmann::json::parse(to_json(config).dump()), "run.json");
    for (const Config& again : {from_toml, from_json})
      EXPECT_TRUE(differences(config, again).empty()) << batch;
  }
}

TEST(BatchSchedule, OnTheCommandLineTakesThePlaceOfTheFilesBatch) {
  const Config config =
      parse_config(with_batch("tokens = 4096"), "run.toml",
                   {"batch.schedule=[{at = 0, samples = 4}, {at = 2, samples = 8}]"});
  EXPECT_EQ(config.batch.samples, 4);
  EXPECT_FALSE(config.batch.tokens);
  EXPECT_NE(refusal_of(with_batch("tokens = 4096"), {"batch.schedule=[{at = 2, samples = 8}]"}),
            "accepted")
      << "the file's batch is what it begins with, in another unit";
}

TEST(BatchSchedule, IsReadInTheFormOfLightningToo) {
  for (const char* schedule : {"0:4,8:8", "{0: 4, 8: 8}", " { 0 : 4 , 8 : 8 , } "}) {
    const Config config = parse_config(with_batch("micro = 2"), "run.toml",
                                       {std::string("batch.schedule=") + schedule});
    ASSERT_EQ(config.batch.schedule.size(), 2) << schedule;
    EXPECT_EQ(config.batch.micro_batches, 4);
    EXPECT_EQ(config.batch.schedule[1].at, (Duration{8, Duration::Unit::epochs}));
    EXPECT_EQ(config.batch.schedule[1].size, 8);
  }
  for (const char* schedule : {"0:4;8:8", "8:8,0:4", "0:0", "a:4", "0:4,,8:8", ":"})
    EXPECT_NE(refusal_of(with_batch("micro = 2"), {std::string("batch.schedule=") + schedule}),
              "accepted")
        << schedule;
}

TEST(BatchSchedule, RefusesWhatContradictsItself) {
  struct Case {
    const char* batch;
    const char* expected;
  };
  for (const auto& [batch, expected] : {
           Case{"samples = 4\nschedule = [{at = 0, samples = 8}]", "one batch for the first step"},
           Case{"tokens = 4\nschedule = [{at = 1, samples = 8}]", "one unit for both"},
           Case{"schedule = [{at = 1, samples = 8}]", "exactly one of"},
           Case{"samples = 4\nschedule = [{at = 5, samples = 8}, {at = 5, samples = 9}]",
                "in the order of at"},
           Case{"samples = 4\nschedule = [{at = 5, samples = 8}, {at = \"50%\", samples = 9}]",
                "one unit for all at"},
           Case{"samples = 4\nschedule = [{at = 5, samples = 8}, {at = 6, tokens = 9}]",
                "one unit for the batch"},
           Case{"samples = 4\nschedule = [{at = 5}]", "at and one batch for each"},
           Case{"samples = 4\nschedule = [{at = 5, samples = 0}]", "1"},
           Case{"samples = 4\nschedule = [{at = 5, sample = 8}]", "no other keys"},
           Case{"samples = 4\nschedule = [{at = \"10 min\", samples = 8}]", "not a time"},
           Case{"samples = 4\nschedule = 8", "array"},
           Case{"samples = 4\nschedule = [{at = 2, samples = 8}]\nramp = {from = 2, over = 5}",
                "both"},
           Case{"samples = 4\nramp = {from = 2}", "batch.ramp.over"},
           Case{"samples = 4\nramp = {from = 4, over = 5}", "less than the batch"},
           Case{"samples = 4\nramp = {over = 5}", "batch.ramp.from"},
       })
    EXPECT_THAT(refusal_of(with_batch(batch)), HasSubstr(expected)) << batch;
}

TEST(AdaptedBatch, IsReadWithItsBounds) {
  const Config config = parse_config(
      with_batch("samples = 8",
                 "[adapt]\nbatch = \"noise-scale\"\nmin = 4\nmax = 64\nlr_rule = \"sqrt\"\n"),
      "run.toml");
  EXPECT_EQ(config.adapt.batch, adapt::BatchRule::noise_scale);
  EXPECT_EQ(config.adapt.min, 4);
  EXPECT_EQ(config.adapt.lr_rule, adapt::RateRule::sqrt);
}

TEST(AdaptedBatch, RefusesWhatContradictsItself) {
  struct Case {
    const char* more;
    const char* expected;
  };
  for (const auto& [more, expected] : {
           Case{"[adapt]\nbatch = \"noise-scale\"\nmin = 9", "adapt.min"},
           Case{"[adapt]\nbatch = \"norm-test\"\nmax = 7", "adapt.max"},
           Case{"[adapt]\nmin = 2", "adapt.batch"},
           Case{"[adapt]\nlr_rule = \"sqrt\"", "by which the batch changes"},
           Case{"[adapt]\nbatch = \"seesaw\"\nlr_rule = \"sqrt\"", "rule of its own"},
           Case{"[adapt]\nbatch = \"critical\"\n[dist]\nlocal_steps = 4",
                "take each step together"},
           Case{"[adapt]\nbatch = \"critical\"\n[dist]\nstages = 2", "pipeline"},
           Case{"[adapt]\nbatch = \"critical\"\n[optim]\nkind = \"adama\"\nclip = 0",
                "optimizer's state"},
           Case{"[adapt]\nbatch = \"critical\"\n[dist]\ncompress = \"int8\"", "dist.compress"},
           Case{"[adapt]\nbatch = \"seesaw\"\n[optim]\nschedule = {kind = \"constant\"}", "falls"},
           Case{"ramp = {from = 2, over = 5}\n[adapt]\nbatch = \"seesaw\"", "one thing"},
           Case{"[adapt]\nbatch = \"sometimes\"", "noise-scale"},
       })
    EXPECT_THAT(refusal_of(with_batch("samples = 8", more)), HasSubstr(expected)) << more;
}

}  // namespace
}  // namespace accrue::train
