#include "observe/tensorboard/scalars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

namespace accrue::observe {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::map<std::string, float> by_tag(const std::vector<Scalar>& scalars) {
  std::map<std::string, float> values;
  for (const Scalar& scalar : scalars) values[scalar.tag] = scalar.value;
  return values;
}

/// docs/design.md, section 5.
TEST(Scalars, OfAStepHaveTheTagsOfTheContract) {
  const auto values = by_tag(scalars_of(StepReport{.step = 3,
                                                   .loss = 2.25,
                                                   .grad_norm = 0.5,
                                                   .lr = 0.125,
                                                   .batch_tokens = 2048,
                                                   .seconds = 2.5,
                                                   .tokens_per_second = 819.2,
                                                   .peak_bytes = 1 << 30,
                                                   .offload_read_bytes = 1 << 20,
                                                   .retries = 2}));
  EXPECT_THAT(values,
              IsSupersetOf({Pair("train/loss", 2.25F), Pair("train/grad_norm", 0.5F),
                            Pair("train/lr", 0.125F), Pair("train/tokens_per_second", 819.2F),
                            Pair("train/batch_tokens", 2048.F), Pair("memory/peak", 1073741824.F),
                            Pair("time/step", 2.5F), Pair("train/retries", 2.F),
                            Pair("offload/read", 1048576.F)}));
}

TEST(Scalars, OfAnEvaluation) {
  EXPECT_THAT(by_tag(scalars_of(Evaluation{.loss = 2.5, .weight = 96, .seconds = 0.5})),
              UnorderedElementsAre(Pair("eval/loss", 2.5F), Pair("eval/weight", 96.F),
                                   Pair("time/eval", 0.5F)));
  EXPECT_THAT(by_tag(scalars_of(Evaluation{.loss = 2.5, .accuracy = 0.75})),
              Contains(Pair("eval/accuracy", 0.75F)));
}

TEST(Scalars, LeaveOutWhatIsAbsentOrNoFloat) {
  StepReport report;
  report.loss = std::numeric_limits<double>::infinity();
  report.grad_norm = std::numeric_limits<double>::quiet_NaN();
  report.lr = 1e300;
  const auto values = by_tag(scalars_of(report));
  for (const char* tag :
       {"train/loss", "train/grad_norm", "train/lr", "memory/peak", "offload/read", "offload/wait"})
    EXPECT_THAT(values, Not(Contains(Key(tag))));
  EXPECT_THAT(values, Contains(Pair("train/quarantined", 0.F)));
}

}  // namespace
}  // namespace accrue::observe
