#include "observe/report/report_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "observe/report/page.h"

namespace accrue::observe {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMegabyte = 1'000'000;

/// A run of `steps` with every number that a step can have, none of which are round.
RunHistory full_run(std::int64_t steps, int index) {
  RunHistory run;
  run.name = "run-" + std::to_string(index);
  for (std::int64_t step = 1; step <= steps; ++step) {
    run.table.steps.push_back(step);
    const double place = static_cast<double>(step);
    run.table.columns["tokens"].push_back(place * 16384);
    run.table.columns["samples"].push_back(place * 64);
    run.table.columns["elapsed"].push_back(place * (3.1415 + index));
  }
  for (const char* name : {"loss",
                           "grad_norm",
                           "lr",
                           "noise_scale",
                           "gradient_variance",
                           "tokens_per_second",
                           "seconds",
                           "accumulation_seconds",
                           "optimizer_seconds",
                           "reduce_seconds",
                           "reduce_exposed_seconds",
                           "data_seconds",
                           "checkpoint_seconds",
                           "peak_bytes",
                           "micro_batch_peak_bytes",
                           "budget_bytes",
                           "share_of_ceiling",
                           "joules",
                           "memory.parameters",
                           "memory.gradients",
                           "memory.optimizer",
                           "memory.activations",
                           "memory.packed",
                           "memory.reserved",
                           "micro_batch_seconds.median",
                           "micro_batch_seconds.max",
                           "losses.lm",
                           "losses.value",
                           "lrs.decay",
                           "lrs.rest",
                           "micro_batch",
                           "micro_batches",
                           "world",
                           "batch_tokens"}) {
    std::vector<double>& column = run.table.columns[name];
    for (std::int64_t step = 1; step <= steps; ++step)
      column.push_back(
          1e-4 + std::abs(std::sin(static_cast<double>(step) * 1.37 + index + std::strlen(name))));
  }
  for (std::int64_t step = 100; step <= steps; step += 100)
    run.evaluations.push_back({step, 0, 1.0 / static_cast<double>(step), 0.5});
  for (std::int64_t step = 1; step <= steps; step += 7)
    run.events.push_back({step, 0, "checkpoint", std::string(200, 'x')});
  return run;
}

std::size_t page_size(int runs, std::int64_t steps) {
  std::vector<RunHistory> histories;
  for (int i = 0; i < runs; ++i) histories.push_back(full_run(steps, i));
  const std::string data = to_json(make_report_data(histories, most_numbers_of(histories.size())));
  return make_page({.title = "t", .data_json = data, .nonce = "n"}).size();
}

TEST(ReportJson, APageOfARunIsBelowTwoMegabytes) {
  EXPECT_LT(page_size(1, 1000), 2 * kMegabyte);
  EXPECT_LT(page_size(1, 100'000), 2 * kMegabyte);
}

TEST(ReportJson, TenRunsOf100000StepsAreBelowTwentyMegabytes) {
  EXPECT_LT(page_size(10, 100'000), 20 * kMegabyte);
}

TEST(ReportJson, AShortRunIsWhole) {
  RunHistory run;
  run.table = {.steps = {1, 2, 3},
               .columns = {{"loss", {5.25, kAbsent, 4.123456789}}, {"lr", {0.1, 0.1, 0.1}}}};
  const json data = json::parse(to_json(make_report_data({run}, most_numbers_of(1))));
  const json& training = data["runs"][0]["training"];
  EXPECT_EQ(training["steps"], json({1, 2, 3}));
  EXPECT_EQ(training["columns"]["loss"], json({5.25, nullptr, 4.12346}));
  EXPECT_EQ(training["columns"]["lr"], 0.1);
  EXPECT_EQ(training["last"]["loss"], 4.123456789) << "as it was measured";
  EXPECT_FALSE(training.contains("tokens"));
}

TEST(ReportJson, ALongRunHasItsExtremes) {
  RunHistory run = full_run(100'000, 0);
  run.table.columns["loss"][54'321] = 987.5;
  const json data = json::parse(to_json(make_report_data({run}, most_numbers_of(1))));
  const json& training = data["runs"][0]["training"];
  EXPECT_GT(training["width"], 1);
  const json& highest = training["columns"]["loss"]["highest"];
  EXPECT_NE(std::find(highest.begin(), highest.end(), 987.5), highest.end());
  EXPECT_EQ(training["tokens"].back(), 100'000LL * 16384);
  // Buckets have means of several steps; the legend and the tile have the last step's.
  EXPECT_EQ(training["last"]["loss"], run.table.columns["loss"].back());
}

TEST(ReportJson, PlacesOnAnAxisDoNotGoBack) {
  RunHistory run;
  run.table = {.steps = {1, 2, 3, 4},
               .columns = {{"loss", {4, 3, 2, 1}}, {"elapsed", {kAbsent, 5, 3, 7}}}};
  const json data = json::parse(to_json(make_report_data({run}, most_numbers_of(1))));
  EXPECT_EQ(data["runs"][0]["training"]["seconds"], json({0, 5, 5, 7}));
}

TEST(ReportJson, RunsOfOtherNumbersOfRanksDiffer) {
  RunHistory alone, together;
  alone.table = {.steps = {1}, .columns = {{"world", {1}}}};
  together.table = {.steps = {1}, .columns = {{"world", {2}}}};
  const auto differences = make_report_data({alone, together}, most_numbers_of(2)).differences;
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].key, "Ranks");
  EXPECT_TRUE(make_report_data({alone, alone}, most_numbers_of(2)).differences.empty());
}

TEST(ReportJson, NothingIsSaidOfWhatWasNotMeasured) {
  RunHistory run;
  run.table = {.steps = {1}, .columns = {{"loss", {1}}, {"retries", {0}}, {"quarantined", {0}}}};
  const json data = json::parse(to_json(make_report_data({run}, most_numbers_of(1))));
  ASSERT_EQ(data["charts"].size(), 1U);
  EXPECT_EQ(data["charts"][0]["id"], "loss");
  EXPECT_EQ(data["runs"][0]["training"]["columns"].size(), 1U);
}

TEST(ReportJson, RunsOfOtherUnitsAreRemarkedOn) {
  RunHistory text, images;
  text.run_json = R"({"unit": "tokens"})";
  images.run_json = R"({"unit": "samples"})";
  EXPECT_THAT(make_report_data({text, text}, most_numbers_of(2)).remarks, IsEmpty());
  const auto remarks = make_report_data({text, images}, most_numbers_of(2)).remarks;
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_THAT(remarks[0], HasSubstr("different units"));
}

TEST(ReportJson, TextThatIsNotUtf8IsStillJson) {
  RunHistory run;
  run.events = {{1, 0, "quarantine", "file \xff\xfe.txt"}};
  EXPECT_TRUE(json::accept(to_json(make_report_data({run}, most_numbers_of(1)))));
}

}  // namespace
}  // namespace accrue::observe
