// Errors in draws and labels are found by their guarantees. (tests/mutants has the faults of
// samplers and schedules, which no test can inject.)
#include "verify/config/draws_check.h"

#include <gmock/gmock.h>

#include "configs_to_verify.h"

namespace accrue::proof {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DrawsCheck : public testing::ConfigsToVerify {};

TEST_F(DrawsCheck, WindowsOfARunAreSound) {
  train::Config config = of_text();
  for (const batch::Order order : {batch::Order::shuffle, batch::Order::sequential})
    for (const std::int64_t samples : {2, 7, 10, 64}) {
      config.data.order = order;
      config.batch.samples = samples;
      const DataCheck check = check_draws(train::open_workload(config));
      EXPECT_THAT(check.faults, IsEmpty()) << samples;
      EXPECT_THAT(check.left_out, IsEmpty()) << samples;
    }
}

batch::MicroBatch running_text() {
  batch::MicroBatch micro;
  micro.inputs = at::tensor({1, 2, 3, 4, 5, 6}, at::kLong).view({2, 3});
  micro.targets = at::tensor({2, 3, 9, 5, -100, 7}, at::kLong).view({2, 3});
  return micro;
}

TEST(LabelsCheck, EachIsTheTokenThatFollows) {
  batch::MicroBatch micro = running_text();
  EXPECT_THAT(faults_of_labels(micro), IsEmpty());
  micro.targets[1][1] = 5;
  EXPECT_THAT(faults_of_labels(micro), ElementsAre(HasSubstr("row 1")));
}

TEST(LabelsCheck, SamplesOfARowAreApart) {
  batch::MicroBatch micro = running_text();
  micro.targets[0][1] = 8;  // the last one of its sample
  EXPECT_THAT(faults_of_labels(micro), ::testing::Not(IsEmpty()));
  micro.spans = {{.row = 0, .begin = 0, .end = 2}, {.row = 0, .begin = 2, .end = 3}};
  EXPECT_THAT(faults_of_labels(micro), IsEmpty());
}

TEST(LabelsCheck, OfHiddenTokensAreWhatWasHidden) {
  batch::MicroBatch one, other;
  one.inputs = at::tensor({1, 9, 3, 4}, at::kLong).view({1, 4});
  one.targets = at::tensor({-100, 2, -100, 4}, at::kLong).view({1, 4});
  other.inputs = at::tensor({9, 2, 3, 7}, at::kLong).view({1, 4});
  other.targets = at::tensor({1, -100, -100, 4}, at::kLong).view({1, 4});
  EXPECT_THAT(faults_of_hidden_tokens(one, other), IsEmpty());
  one.targets[0][1] = 3;
  EXPECT_THAT(faults_of_hidden_tokens(one, other), ElementsAre(HasSubstr("hidden")));
  one.targets[0][1] = 2;
  other.inputs[0][2] = 5;  // changed without a request
  EXPECT_THAT(faults_of_hidden_tokens(one, other), ElementsAre(HasSubstr("hidden")));
}

}  // namespace
}  // namespace accrue::proof
