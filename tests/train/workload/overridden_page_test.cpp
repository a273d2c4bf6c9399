#include "train/workload/first/overridden_page.h"

#include <gmock/gmock.h>

#include "train/workload/first/first_config.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Overrides = std::vector<std::string>;

std::string chosen_page() {
  const DataFacts text{
      .format = data::Format::text, .train = {"a.txt"}, .tokens = 100'000, .vocab = 256};
  return first_config(text, {.multiplies_bf16 = false}, {.command = "accrue train a.txt"});
}

struct Overridden {
  std::string page;
  Config config;
};

Overridden overridden(const Overrides& overrides) {
  const Config config = parse_config(chosen_page(), "the chosen config", overrides);
  return {overridden_page(chosen_page(), overrides, config), config};
}

/// A page and the config of the run have to be the same.
void expect_reads_as_the_run(const Overrides& overrides) {
  const Overridden one = overridden(overrides);
  const Config read = parse_config(one.page, "page");
  for (const ConfigDifference& difference : differences(one.config, read))
    ADD_FAILURE() << difference.key << ": the run has " << difference.before << ", the page has "
                  << difference.after << "\n"
                  << one.page;
}

TEST(OverriddenPage, StaysAsItIsIfNothingChangesIt) {
  EXPECT_EQ(overridden({}).page, chosen_page());
  EXPECT_EQ(overridden({"data.train=a.txt"}).page, chosen_page());
}

TEST(OverriddenPage, ReadsAsTheConfigOfTheRun) {
  expect_reads_as_the_run({"optim.lr=1e-3", "model.layers=2"});
  expect_reads_as_the_run({"batch.samples=16", "run.threads=1"});
  expect_reads_as_the_run({"run.epochs=2", "optim.schedule.warmup=10"});
  expect_reads_as_the_run({"optim.kind=sgd", "optim.momentum=0.5", "observe.jsonl=false"});
  expect_reads_as_the_run({"model.kind=llama"});
}

TEST(OverriddenPage, MarksWhatTheCommandLineStates) {
  const std::string page = overridden({"optim.lr=0.25", "run.threads=1"}).page;
  EXPECT_THAT(page, AllOf(HasSubstr("lr = 0.25                     # stated on the command line\n"),
                          HasSubstr("threads = 1                   # stated on the command line\n"),
                          HasSubstr("# The other reasons are those of the choice")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("usual for this width")), HasSubstr("with this width ")));
}

TEST(OverriddenPage, LeavesOutWhatAnAlternativeReplaces) {
  const std::string page = overridden({"batch.samples=16"}).page;
  EXPECT_THAT(page, AllOf(HasSubstr("[batch]\nsamples = 16 "), Not(HasSubstr("\ntokens = "))));
}

TEST(OverriddenPage, HasTheSectionsThatTheChoiceLacks) {
  const std::string page = overridden({"observe.jsonl=false"}).page;
  EXPECT_THAT(page, HasSubstr("\n[observe]\njsonl = false"));
  EXPECT_THAT(page, Not(HasSubstr("# The other reasons"))) << "no choice was changed";
}

TEST(OverriddenPage, WritesAScheduleOfWhichOneKeyChangesByItsKeys) {
  const std::string page = overridden({"optim.schedule.warmup=10"}).page;
  EXPECT_THAT(page, AllOf(HasSubstr("schedule.warmup = "), HasSubstr("schedule.kind = \"cosine\""),
                          Not(HasSubstr("schedule = {"))));
}

}  // namespace
}  // namespace accrue::train
