#include "observe/report/derived.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace accrue::observe {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

StepTable timed_table() {
  return {.steps = {1, 2},
          .columns = {{"seconds", {10, 10}},
                      {"accumulation_seconds", {7, 7}},
                      {"optimizer_seconds", {2, 2}},
                      {"reduce_seconds", {3, 3}},
                      {"reduce_exposed_seconds", {1, 1}},
                      {"data_seconds", {0.5, 0.5}}}};
}

TEST(Derived, PartsAddUpToTheTimeOfTheStep) {
  const StepTable table = with_derived(timed_table());
  double sum = 0;
  for (const char* part :
       {"compute", "reduce_hidden", "reduce_exposed", "optimizer", "data", "rest"})
    sum += table.columns.at(std::string("part.") + part)[1];
  EXPECT_DOUBLE_EQ(sum, 10);
  EXPECT_THAT(table.columns.at("part.compute"), ElementsAre(DoubleEq(4.5), DoubleEq(4.5)));
  EXPECT_THAT(table.columns.at("part.optimizer"), ElementsAre(1, 1));
}

TEST(Derived, WaitingForOffloadedStateIsAPartOfTheStep) {
  StepTable table = timed_table();
  EXPECT_EQ(with_derived(table).column("offload_wait_share"), nullptr);
  table.columns["offload_wait_seconds"] = {2.5, kUnknown};
  table = with_derived(table);
  EXPECT_THAT(table.columns.at("offload_wait_share"), ElementsAre(0.25, IsNan()));
}

TEST(Derived, WhatWasNotMeasuredIsNoPart) {
  StepTable table = timed_table();
  for (const char* name : {"reduce_seconds", "reduce_exposed_seconds", "data_seconds"})
    table.columns.erase(name);
  table = with_derived(table);
  EXPECT_EQ(table.column("part.reduce_hidden"), nullptr);
  EXPECT_EQ(table.column("part.data"), nullptr);
  EXPECT_EQ(table.column("part.checkpoint"), nullptr);
  EXPECT_THAT(table.columns.at("part.compute"), ElementsAre(7, 7));
}

TEST(Derived, NoPartIsBelowNothing) {
  StepTable table{
      .steps = {1},
      .columns = {{"seconds", {1}}, {"accumulation_seconds", {0.9}}, {"optimizer_seconds", {0.2}}}};
  EXPECT_THAT(with_derived(table).columns.at("part.rest"), ElementsAre(0));
}

TEST(Derived, SamplesOfABatchNeedTheStepBefore) {
  const StepTable table = with_derived({.steps = {1, 2, 5}, .columns = {{"samples", {8, 16, 40}}}});
  EXPECT_THAT(table.columns.at("batch_samples"), ElementsAre(8, 8, IsNan()));
  const StepTable resumed =
      with_derived({.steps = {100, 101}, .columns = {{"samples", {800, 808}}}});
  EXPECT_THAT(resumed.columns.at("batch_samples"), ElementsAre(IsNan(), 8));
}

TEST(Derived, SamplesOfABatchThatStepsTellAreTaken) {
  const StepTable table =
      with_derived({.steps = {1, 2}, .columns = {{"samples", {8, 16}}, {"batch_samples", {7, 9}}}});
  EXPECT_THAT(table.columns.at("batch_samples"), ElementsAre(7, 9));
}

TEST(Derived, WaitingForACheckpointIsNoRest) {
  StepTable table = timed_table();
  table.columns["seconds"] = {10, 12};
  table.columns["checkpoint_seconds"] = {kUnknown, 2.5};
  table = with_derived(table);
  EXPECT_THAT(table.columns.at("part.rest"), ElementsAre(1, 0.5));
  EXPECT_THAT(table.columns.at("part.checkpoint"), ElementsAre(0, 2.5));
}

TEST(Derived, SpeedIsInSamplesWhereTokensAreNotCounted) {
  const StepTable images{.steps = {1, 2},
                         .columns = {{"samples", {8, 16}}, {"seconds", {2, kUnknown}}}};
  EXPECT_THAT(with_derived(images).columns.at("samples_per_second"), ElementsAre(4, IsNan()));
  StepTable text = images;
  text.columns["tokens_per_second"] = {100, 100};
  EXPECT_EQ(with_derived(text).column("samples_per_second"), nullptr);
}

}  // namespace
}  // namespace accrue::observe
