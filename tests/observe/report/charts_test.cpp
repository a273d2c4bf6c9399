#include "observe/report/charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/report/chart_catalogue.h"

namespace accrue::observe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> ids(const std::vector<Chart>& charts) {
  std::vector<std::string> all;
  for (const Chart& chart : charts) all.push_back(chart.id);
  return all;
}

std::vector<std::string> labels(const Chart& chart) {
  std::vector<std::string> all;
  for (const ChartSeries& series : chart.series) all.push_back(series.label);
  return all;
}

TEST(Charts, ThoseWithoutDataDoNotAppear) {
  EXPECT_THAT(charts_of({}), IsEmpty());
  EXPECT_THAT(ids(charts_of({"loss", "lr", "elapsed", "tokens"})), ElementsAre("loss", "lr"));
}

TEST(Charts, SeriesWithoutDataDoNotAppear) {
  const std::vector<Chart> charts = charts_of({"loss"});
  EXPECT_THAT(labels(charts.front()), ElementsAre("training"));
  EXPECT_THAT(labels(charts_of({"loss", "eval_loss"}).front()),
              ElementsAre("training", "evaluation"));
}

TEST(Charts, ABudgetAloneIsNoChartOfMemory) {
  EXPECT_THAT(charts_of({"budget_bytes"}), IsEmpty());
  EXPECT_THAT(ids(charts_of({"budget_bytes", "peak_bytes"})), ElementsAre("peak_bytes"));
}

TEST(Charts, OffloadedStateHasItsOwn) {
  const std::vector<Chart> charts =
      charts_of({"loss", "offload_read_bytes", "offload_written_bytes", "offload_wait_seconds",
                 "offload_wait_share"});
  EXPECT_THAT(ids(charts), ElementsAre("loss", "offload_bytes", "offload_wait_share"));
  EXPECT_THAT(labels(charts[1]), ElementsAre("read", "written"));
}

TEST(Charts, ASeriesOfAnyEndingStandsForAllOfItsColumns) {
  const std::vector<Chart> charts = charts_of({"losses.lm", "losses.value", "lossesother"});
  ASSERT_THAT(ids(charts), Contains("losses"));
  EXPECT_THAT(labels(charts.front()), ElementsAre("lm", "value"));
}

TEST(Charts, AColumnOfALaterVersionHasAChartOfItsOwn) {
  const std::vector<Chart> charts = charts_of({"loss", "expert_balance"});
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_EQ(charts.back().title, "expert_balance");
  EXPECT_EQ(charts.back().section, Section::other);
}

TEST(Charts, WhatSeveralChartsShowIsKeptForAllOfThem) {
  const Chart means{.kept = Kept::mean, .series = {{"a", ""}, {"b", ""}}};
  const Chart extremes{.kept = Kept::extremes, .series = {{"b", ""}}};
  const auto kept = kept_columns({means, extremes});
  EXPECT_EQ(kept.at("a"), Kept::mean);
  EXPECT_EQ(kept.at("b"), Kept::extremes);
}

TEST(Charts, EachOfTheCatalogueIsThereOnceAndSaysWhatItIs) {
  std::set<std::string> seen;
  for (const Chart& chart : chart_catalogue()) {
    EXPECT_TRUE(seen.insert(chart.id).second) << chart.id;
    EXPECT_THAT(chart.title, Not(IsEmpty()));
    EXPECT_THAT(chart.series, Not(IsEmpty())) << chart.id;
  }
}

}  // namespace
}  // namespace accrue::observe
