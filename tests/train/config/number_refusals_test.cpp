#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "refusal_of.h"
#include "train/config/key.h"

/// Invalid numbers, durations and bytes: the contents of their refusals.
namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRun = "[run]\nsteps = 10\n[data]\ntrain = [\"a\"]\n[batch]\nsamples = 8\n";

std::string said_of(const std::vector<std::string>& overrides, const std::string& toml = kRun) {
  return refusal_of(toml, overrides);
}

TEST(NumbersBeyond64Bits, AreNotCalledStrings) {
  for (const char* number : {"1e400", "-1e400", "+1e400", "1_000e400", "99999999999999999999"})
    for (const char* key : {"optim.lr", "batch.samples", "run.eval_every"})
      EXPECT_THAT(
          said_of({std::string(key) + "=" + number}),
          AllOf(HasSubstr(std::string("config key ") + key), HasSubstr("64 bits do not hold"),
                HasSubstr(number), Not(HasSubstr("a string"))));
  EXPECT_THAT(said_of({"optim.lr=1e400"}), HasSubstr("try a value in that range"));
  EXPECT_THAT(said_of({"batch.samples=9e99"}), HasSubstr("try a value in that range"));
}

TEST(NumbersBeyond64Bits, AreTextsWhereTextsAreAsked) {
  EXPECT_EQ(parse_config(kRun, "run.toml", {"run.out=1e400"}).run.out, "1e400");
}

TEST(NumbersBeyond64Bits, AreNamedInFilesToo) {
  for (const char* number : {"1e400", "99999999999999999999"})
    EXPECT_THAT(said_of({}, std::string(kRun) + "[optim]\nlr = " + number + "\n"),
                AllOf(HasSubstr("read config run.toml:8:"),
                      HasSubstr("expected numbers that 64 bits hold"), HasSubstr(number)));
  EXPECT_THAT(said_of({}, std::string(kRun) + "[optim]\nlr = 'open\n"),
              HasSubstr("expected a quote at the end of a text"));
}

TEST(Integers, TakePrefixesOfPowersOfAThousand) {
  using Written = std::pair<const char*, std::int64_t>;
  for (const auto& [text, value] : {Written{"32k", 32'000},
                                    {"32K", 32'000},
                                    {"1M", 1'000'000},
                                    {"1.5M", 1'500'000},
                                    {"2G", 2'000'000'000},
                                    {"0.5k", 500}}) {
    EXPECT_EQ(parse_config("[run]\nsteps = 1\n[data]\ntrain = [\"a\"]\n", "run.toml",
                           {std::string("batch.tokens=") + text})
                  .batch.tokens,
              value)
        << text;
    EXPECT_EQ(parse_config(std::string("[run]\nsteps = 1\n[data]\ntrain = [\"a\"]\n[batch]\n"
                                       "tokens = \"") +
                               text + "\"\n",
                           "run.toml")
                  .batch.tokens,
              value)
        << text;
  }
  for (const char* text :
       {"k", "1.0005k", "32kk", "32 k", "-1k", "1e3k", "0x1k", "32m", "9999999999T"})
    EXPECT_NE(said_of({std::string("batch.tokens=") + text}), "accepted") << text;
}

TEST(Keys, HaveAMeaningEach) {
  for (const Key& key : keys()) {
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_TRUE(key.meaning.ends_with(".")) << key.name << ": " << key.meaning;
  }
}

TEST(Batches, AreNeverLargerThanAnyoneHasSamples) {
  EXPECT_THAT(said_of({"batch.tokens=9000000000000000000"}),
              AllOf(HasSubstr("an integer from 1 to 1_000_000_000_000"),
                    HasSubstr("received 9000000000000000000"), HasSubstr("a value in that range")));
  EXPECT_THAT(said_of({"batch.tokens=9e18"}),
              AllOf(HasSubstr("9e+18 (a float)"), HasSubstr("a value in that range")));
  EXPECT_THAT(said_of({"batch.tokens=5e5"}), HasSubstr("try the integer 500000"));
  EXPECT_THAT(said_of({"batch.tokens=1.5"}), HasSubstr("try an integer"));
  EXPECT_EQ(said_of({"batch.tokens=1000000000000"}), "accepted");
}

TEST(Runs, AreCountedIn64Bits) {
  EXPECT_THAT(said_of({"run.steps=1000000000000", "batch.tokens=1000000000000"}),
              AllOf(HasSubstr("at most 1e18 tokens"), HasSubstr("fewer steps")));
  for (const char* key : {"run.steps", "run.tokens", "run.epochs", "model.width", "run.keep"})
    EXPECT_THAT(said_of({std::string(key) + "=9000000000000000000"}), HasSubstr(key));
}

TEST(EveryIntegerOfTheTable, HasWordsForWhatIsBeyondIt) {
  for (const Key& key : keys()) {
    if (!key.expected.starts_with("an integer") || key.name == "run.seed") continue;
    EXPECT_THAT(
        said_of({key.name + "=9223372036854775807"}),
        AllOf(HasSubstr("config key " + key.name), HasSubstr("received 922337203685477580")))
        << key.name;
  }
}

TEST(Durations, NameTheClockWhereItCounts) {
  EXPECT_THAT(said_of({"run.checkpoint_every=10 fortnights"}),
              AllOf(HasSubstr("or \"10 min\""), HasSubstr("one of these units")));
  for (const char* not_a_time : {"soon", "5", "0 s", "-1 min", "20 steps"})
    EXPECT_THAT(said_of({std::string("dist.timeout=") + not_a_time}),
                AllOf(HasSubstr("a time above 0 such as \"90 s\" or \"10 min\""),
                      Not(HasSubstr("a whole number of steps"))))
        << not_a_time;
  EXPECT_THAT(said_of({"optim.schedule.warmup=soon"}),
              AllOf(HasSubstr("not a time"), Not(HasSubstr("\"10 min\""))));
}

TEST(Budgets, AreNeverANumberWithoutAUnit) {
  for (const char* budget : {"6", "\"6\"", "0", "4096", "6442450944", "1e400", "6.5"})
    EXPECT_THAT(said_of({std::string("memory.budget=") + budget}),
                AllOf(HasSubstr("memory.budget"), HasSubstr("\"6GiB\"")))
        << budget;
  for (const char* budget : {"6GiB", "none", "auto", "4096 B", "\"1.5 GB\""})
    EXPECT_EQ(said_of({std::string("memory.budget=") + budget}), "accepted") << budget;
}

/// Earlier versions accepted bytes without a unit, and wrote them like that.
TEST(Budgets, OfARunOfAnEarlierVersionAreBytes) {
  const Config of_run = parse_config(std::string(kRun) + "[memory]\nbudget = \"6442450944\"\n",
                                     "config.toml", {}, ConfigOrigin::run);
  EXPECT_EQ(of_run.memory.budget, "6442450944 B");
  EXPECT_THROW(parse_config(kRun, "config.toml", {"memory.budget=6442450944"}, ConfigOrigin::run),
               Error)
      << "an override is the user's";
}

TEST(BatchThatMayChange, StaysAsItIsStated) {
  EXPECT_TRUE(batch_may_change(parse_config(kRun, "run.toml")));
  for (const char* other : {"adapt.batch=noise-scale", "batch.schedule=[{at = 2, samples = 8}]",
                            "batch.ramp={from = 1, over = 2}"}) {
    SCOPED_TRACE(other);
    EXPECT_FALSE(batch_may_change(parse_config(kRun, "run.toml", {"batch.samples=4", other})));
  }
  EXPECT_FALSE(batch_may_change(parse_config(
      kRun, "run.toml", {"model.kind=resnet", "batch.samples=4", "model.batchnorm=exact"})));
}

}  // namespace
}  // namespace accrue::train
