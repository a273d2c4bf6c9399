#include "observe/history/step_rows.h"

#include <gmock/gmock.h>

#include "observe/history/run_folder.h"

namespace accrue::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::NanSensitiveDoubleEq;
using Values = std::vector<std::pair<std::string, double>>;

std::size_t keep(StepRows& rows, std::int64_t step, const Values& values) {
  rows.begin_row();
  for (const auto& [name, value] : values) rows.put(name, value);
  return rows.keep_row(step);
}

auto are(double a, double b, double c) {
  return ElementsAre(NanSensitiveDoubleEq(a), NanSensitiveDoubleEq(b), NanSensitiveDoubleEq(c));
}

TEST(StepRows, HaveNoValueWhereARowHadNone) {
  StepRows rows;
  keep(rows, 1, {{"loss", 3}, {"lr", 0.1}});
  keep(rows, 2, {{"lr", 0.2}, {"loss", 2}});
  keep(rows, 5, {{"norm", 7}, {"lr", 0.3}});
  const StepTable table = rows.take();
  EXPECT_THAT(table.steps, ElementsAre(1, 2, 5));
  EXPECT_EQ(table.columns.size(), 3U);
  EXPECT_THAT(table.columns.at("loss"), are(3, 2, none));
  EXPECT_THAT(table.columns.at("lr"), are(0.1, 0.2, 0.3));
  EXPECT_THAT(table.columns.at("norm"), are(none, none, 7));
}

TEST(StepRows, ForgetWhatAStepThatComesAgainUndoes) {
  StepRows rows;
  for (const std::int64_t step : {1, 2, 3, 4})
    EXPECT_EQ(keep(rows, step, {{"loss", 10. * static_cast<double>(step)}, {"old", 1}}), 0U);
  EXPECT_EQ(keep(rows, 2, {{"loss", 21}}), 3U);
  EXPECT_EQ(keep(rows, 3, {{"loss", 31}}), 0U);
  const StepTable table = rows.take();
  EXPECT_THAT(table.steps, ElementsAre(1, 2, 3));
  EXPECT_THAT(table.columns.at("loss"), are(10, 21, 31));
  EXPECT_THAT(table.columns.at("old"), are(1, none, none));
}

TEST(StepRows, ARowThatIsNotKeptLeavesNothing) {
  StepRows rows;
  keep(rows, 1, {{"loss", 3}});
  rows.begin_row();
  rows.put("eval", 1);
  rows.put("loss", 9);
  keep(rows, 2, {{"loss", 2}});
  const StepTable table = rows.take();
  EXPECT_EQ(table.columns.size(), 1U);
  EXPECT_THAT(table.columns.at("loss"), ElementsAre(3, 2));
}

TEST(StepRows, KeepNoMoreNamesThanTheyMay) {
  StepRows rows;
  rows.begin_row();
  for (std::size_t i = 0; i < StepRows::most_columns; ++i) rows.put(std::to_string(i), 1);
  EXPECT_FALSE(rows.is_full());
  rows.put("one more", 1);
  EXPECT_TRUE(rows.is_full());
  rows.keep_row(1);
  EXPECT_EQ(rows.take().columns.size(), StepRows::most_columns);
}

}  // namespace
}  // namespace accrue::observe
