#include "observe/report/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace accrue::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Figure* figure(const std::vector<Figure>& figures, const std::string& id) {
  const auto found =
      std::find_if(figures.begin(), figures.end(), [&](const Figure& one) { return one.id == id; });
  return found == figures.end() ? nullptr : &*found;
}

RunHistory run_of(std::int64_t steps) {
  RunHistory run;
  for (std::int64_t step = 1; step <= steps; ++step) {
    run.table.steps.push_back(step);
    run.table.columns["loss"].push_back(static_cast<double>(step));
    run.table.columns["elapsed"].push_back(2.0 * static_cast<double>(step));
  }
  return run;
}

TEST(Figures, ARunWithoutStepsHasNone) { EXPECT_THAT(key_figures({}), IsEmpty()); }

TEST(Figures, WhatWasNotMeasuredIsNoFigure) {
  const auto figures = key_figures(run_of(50));
  for (const char* id :
       {"eval_loss", "tokens_per_second", "share_of_ceiling", "peak_bytes", "energy"})
    EXPECT_EQ(figure(figures, id), nullptr) << id;
}

TEST(Figures, TheLossIsThatOfTheLastStepBesideTheMeanOfTheLastTenth) {
  const auto figures = key_figures(run_of(50));
  EXPECT_DOUBLE_EQ(figure(figures, "training_loss")->value, 50);
  EXPECT_EQ(figure(figures, "training_loss")->text, "50");
  EXPECT_EQ(figure(figures, "training_loss")->detail,
            "of the last step; mean of the last 5 steps 48");
}

TEST(Figures, TheLossOfFewStepsIsThatOfTheLast) {
  const auto figures = key_figures(run_of(15));
  EXPECT_DOUBLE_EQ(figure(figures, "training_loss")->value, 15);
  EXPECT_EQ(figure(figures, "training_loss")->detail, "of the last step");
}

TEST(Figures, AnEvaluationNamesTheBest) {
  RunHistory run = run_of(50);
  run.evaluations = {{10, 0, 2.5, 0.4}, {20, 0, 2.0, 0.5}, {30, 0, 2.25, 0.45}};
  const auto figures = key_figures(run);
  EXPECT_EQ(figure(figures, "eval_loss")->text, "2.25");
  EXPECT_EQ(figure(figures, "eval_loss")->detail, "at step 30; best 2 at 20");
  EXPECT_EQ(figure(figures, "eval_accuracy")->text, "45%");
}

TEST(Figures, PeakMemoryStandsBesideItsBudget) {
  RunHistory run = run_of(2);
  run.table.columns["peak_bytes"] = {3e8, 2e8};
  EXPECT_FALSE(figure(key_figures(run), "peak_bytes")->part);
  run.table.columns["budget_bytes"] = {6e8, 6e8};
  const auto figures = key_figures(run);
  EXPECT_DOUBLE_EQ(figure(figures, "peak_bytes")->value, 3e8);
  EXPECT_DOUBLE_EQ(*figure(figures, "peak_bytes")->part, 0.5);
  EXPECT_THAT(figure(figures, "peak_bytes")->detail, HasSubstr("50% of the budget"));
}

TEST(Figures, ARunThatGoesOnTellsTheTimeLeft) {
  RunHistory run = run_of(50);
  run.total_steps = 100;
  EXPECT_EQ(figure(key_figures(run), "time")->detail, "");
  run.state = RunState::running;
  EXPECT_EQ(figure(key_figures(run), "time")->detail, "about 1m40s left");
  EXPECT_DOUBLE_EQ(*figure(key_figures(run), "steps")->part, 0.5);
}

}  // namespace
}  // namespace accrue::observe
