#include "observe/history/metrics_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "observe/history/run_folder.h"
#include "observe/jsonl_sink.h"

namespace accrue::observe {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;

class MetricsFile : public RunFolder {
 protected:
  Metrics read(const std::string& content) const {
    return read_metrics(write("metrics.jsonl", content));
  }
};

TEST_F(MetricsFile, HoldsWhatTheSinkWrote) {
  const StepReport report{.step = 3,
                          .epoch = 0.5,
                          .time = 1000.25,
                          .samples = 96,
                          .tokens = 6144,
                          .weight = 2048,
                          .loss = 0.1 + 0.2,
                          .seconds = 2.5,
                          .peak_bytes = std::int64_t{1} << 40,
                          .batchnorm = "micro"};
  const Metrics metrics =
      read(to_json_line(Event{"plan", "micro-batch \"4\"\n", 0}, 1.5) + to_json_line(report) +
           to_json_line(Evaluation{.step = 3, .loss = 2.5, .accuracy = 0.75, .weight = 9}, 6.5));
  EXPECT_THAT(metrics.table.steps, ElementsAre(3));
  EXPECT_EQ(metrics.table.columns.at("loss").front(), 0.1 + 0.2);
  EXPECT_EQ(metrics.table.columns.at("time").front(), 1000.25);
  EXPECT_EQ(metrics.table.columns.at("peak_bytes").front(), std::pow(2, 40));
  EXPECT_EQ(metrics.table.columns.at("quarantined").front(), 0);
  for (const char* absent : {"step", "lr", "batchnorm", "eval_loss", "eval_accuracy"})
    EXPECT_FALSE(metrics.table.columns.contains(absent)) << absent;
  ASSERT_EQ(metrics.evaluations.size(), 1U);
  EXPECT_EQ(metrics.evaluations[0].step, 3);
  EXPECT_EQ(metrics.evaluations[0].time, 6.5);
  EXPECT_EQ(metrics.evaluations[0].loss, 2.5);
  EXPECT_EQ(metrics.evaluations[0].accuracy, 0.75);
  ASSERT_EQ(metrics.events.size(), 1U);
  EXPECT_EQ(metrics.events[0].name, "plan");
  EXPECT_EQ(metrics.events[0].reason, "micro-batch \"4\"\n");
  EXPECT_EQ(metrics.events[0].time, 1.5);
  EXPECT_THAT(metrics.remarks, IsEmpty());
}

TEST_F(MetricsFile, NamesNestedNumbersWithDots) {
  const Metrics metrics = read(
      R"({"step":1,"memory":{"parameters":5,"kind":"x","deep":{"er":{"and":{"no":{"end":7}}}}},)"
      R"("losses":{"lm":2.5,"a.b":3},"list":[1,2],"flag":true,"nothing":null})"
      "\n");
  EXPECT_EQ(metrics.table.columns.size(), 3U);
  EXPECT_THAT(metrics.table.columns.at("memory.parameters"), ElementsAre(5));
  EXPECT_THAT(metrics.table.columns.at("losses.lm"), ElementsAre(2.5));
  EXPECT_THAT(metrics.table.columns.at("losses.a.b"), ElementsAre(3));
}

/// Compares with another parser's result for the same file, number by number.
TEST_F(MetricsFile, AgreesWithAnotherParserOnAnyNumbers) {
  std::mt19937_64 random(7);
  std::string text;
  for (int step = 1; step <= 500; ++step) {
    nlohmann::ordered_json line{{"step", step}};
    for (int i = 0; i < 12; ++i) {
      const std::string name = "n" + std::to_string(random() % 20);
      const auto bits = random();
      double value = 0;
      std::memcpy(&value, &bits, sizeof value);
      if (i % 3 == 0)
        line[name] = static_cast<std::int64_t>(bits >> 12U);
      else if (std::isfinite(value))
        line[name] = value;
    }
    text += line.dump() + "\n";
  }
  const Metrics metrics = read(text);
  std::istringstream lines(text);
  std::size_t row = 0, numbers = 0;
  for (std::string line; std::getline(lines, line); ++row) {
    const auto parsed = nlohmann::json::parse(line);
    for (const auto& [name, value] : parsed.items()) {
      if (name == "step") continue;
      ++numbers;
      EXPECT_EQ(metrics.table.columns.at(name).at(row), value.get<double>()) << line;
    }
  }
  EXPECT_EQ(row, metrics.table.steps.size());
  std::size_t found = 0;
  for (const auto& [name, values] : metrics.table.columns)
    found += static_cast<std::size_t>(
        std::ranges::count_if(values, [](double value) { return !std::isnan(value); }));
  EXPECT_EQ(found, numbers);
}

TEST_F(MetricsFile, KeepsWhatIsWholeAndSaysWhatIsNot) {
  const Metrics metrics = read(
      "{\"step\":1,\"loss\":3}\nnot json\n\n{\"step\":2,\"lo\n[1]\n5\n"
      "{\"loss\":1}\n{\"step\":2.5,\"loss\":1}\n{\"step\":-1,\"loss\":1}\n"
      "{\"step\":3,\"note\":\"of another version\"}\n"
      "{\"step\":3,\"loss\":1} {\"step\":4,\"loss\":1}\n"
      "{\"step\":3,\"loss\":1e999}\n\xff\xfe{\"step\":3}\n" +
      std::string(20, '\0') + "\n{\"step\":2,\"loss\":2,\"unknown\":1}\n{\"step\":3,\"loss\":1");
  EXPECT_THAT(metrics.table.steps, ElementsAre(1, 2));
  EXPECT_THAT(metrics.table.columns.at("loss"), ElementsAre(3, 2));
  EXPECT_THAT(metrics.table.columns.at("unknown"), ElementsAre(IsNan(), DoubleEq(1)));
  EXPECT_THAT(metrics.remarks,
              ElementsAre("metrics.jsonl: 12 lines left out that this version does not know, the "
                          "first at line 2",
                          "metrics.jsonl: the last line is half-written and left out"));
}

TEST_F(MetricsFile, ALastLineWithoutItsBreakCountsWhereItIsWhole) {
  const Metrics metrics = read("{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}");
  EXPECT_THAT(metrics.table.steps, ElementsAre(1, 2));
  EXPECT_THAT(metrics.remarks, IsEmpty());
}

TEST_F(MetricsFile, WhatARunTookAgainCountsAsItWasTakenLast) {
  const Metrics metrics = read(
      "{\"step\":1,\"loss\":1}\n{\"step\":1,\"eval_loss\":11}\n{\"step\":2,\"loss\":2}\n"
      "{\"step\":2,\"eval_loss\":12}\n{\"step\":3,\"loss\":3}\n{\"step\":3,\"eval_loss\":13}\n"
      "{\"step\":1,\"event\":\"resume\",\"reason\":\"\"}\n{\"step\":2,\"loss\":22}\n"
      "{\"step\":2,\"eval_loss\":32}\n{\"step\":2,\"eval_loss\":42}\n");
  EXPECT_THAT(metrics.table.steps, ElementsAre(1, 2));
  EXPECT_THAT(metrics.table.columns.at("loss"), ElementsAre(1, 22));
  ASSERT_EQ(metrics.evaluations.size(), 2U);
  EXPECT_EQ(metrics.evaluations[0].loss, 11);
  EXPECT_EQ(metrics.evaluations[1].loss, 42);
  EXPECT_EQ(metrics.events.size(), 1U);
  EXPECT_THAT(metrics.remarks,
              ElementsAre("metrics.jsonl: 2 steps left out that the run took again, the first at "
                          "line 8, where it goes back to step 2"));
}

TEST_F(MetricsFile, AWindowWithoutAStepLeavesTheStepBeforeIt) {
  const Metrics metrics = read(
      "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":2,\"tokens\":9}\n"
      "{\"step\":2,\"eval_loss\":12}\n{\"step\":2,\"tokens\":9,\"quarantined\":4}\n");
  EXPECT_THAT(metrics.table.steps, ElementsAre(1, 2));
  EXPECT_THAT(metrics.table.columns.at("loss"), ElementsAre(1, 2));
  EXPECT_FALSE(metrics.table.columns.contains("quarantined"));
  ASSERT_EQ(metrics.evaluations.size(), 1U);
  EXPECT_THAT(metrics.remarks, IsEmpty());
}

TEST_F(MetricsFile, HasNothingWhereThereIsNone) {
  for (const Metrics& metrics : {read(""), read_metrics(folder_ / "none"), read_metrics(folder_)}) {
    EXPECT_THAT(metrics.table.steps, IsEmpty());
    EXPECT_THAT(metrics.table.columns, IsEmpty());
    EXPECT_THAT(metrics.remarks, IsEmpty());
  }
}

}  // namespace
}  // namespace accrue::observe
