#include "observe/jsonl_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "observe/file_size_limit.h"
#include "observe/full_step.h"
#include "observe/step_from_line.h"

namespace accrue::observe {
namespace {

using nlohmann::json;
using observe::testing::full_step;
using ::testing::HasSubstr;

class JsonlSinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ =
        std::filesystem::path(::testing::TempDir()) /
        ("metrics_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove(file_);
  }
  void TearDown() override { std::filesystem::remove(file_); }

  JsonlSink sink(std::int64_t first_step) {
    return JsonlSink(file_, first_step, warnings_, [] { return 5.0; });
  }
  std::vector<json> lines() const {
    std::vector<json> parsed;
    std::istringstream content(read_file(file_));
    for (std::string line; std::getline(content, line);) parsed.push_back(json::parse(line));
    return parsed;
  }

  std::filesystem::path file_;
  std::ostringstream warnings_;
};

TEST(JsonLine, OfAStepHasTheDocumentedKeysInOrder) {
  EXPECT_EQ(
      to_json_line(full_step()),
      R"({"step":3,"epoch":0.5,"time":1000.25,"elapsed":7.5,"samples":96,"tokens":6144,)"
      R"("weight":2048.0,"loss":2.25,"losses":{"boxes":0.5,"tokens":2.0},"grad_norm":0.1,)"
      R"("lr":0.0003,"lrs":{"decayed":0.0003,"undecayed":0.0001},"micro_batch":4,)"
      R"("micro_batches":8,"batch_samples":32,"batch_tokens":2048,"seconds":2.5,)"
      R"("epoch_seconds":60.5,"tokens_per_second":819.2,"updates_per_hour":1440.0,)"
      R"("accumulation_seconds":2.25,"micro_batch_seconds":{"median":0.25,"max":0.5},)"
      R"("optimizer_seconds":0.125,"data_seconds":0.0625,"checkpoint_seconds":0.03125,)"
      R"("reduce_seconds":0.5,"reduce_exposed_seconds":0.25,"wire_bytes":4096,)"
      R"("pipeline_bubble":0.125,"pipeline_bubble_formula":0.25,"share_of_ceiling":0.75,)"
      R"("joules":40.5,"peak_bytes":1073741824,"budget_bytes":1610612736,)"
      R"("micro_batch_peak_bytes":536870912,"memory":{"parameters":1,"gradients":2,"optimizer":3,)"
      R"("activations":4,"packed":5,"reserved":16},"offload_read_bytes":1048576,)"
      R"("offload_written_bytes":524288,"offload_wait_seconds":0.375,"noise_scale":5000.0,)"
      R"("noise_scale_low":3000.0,"noise_scale_high":8000.0,"noise_scale_in_geometry":9000.0,)"
      R"("noise_scales":{"h.0":4000.0,"h.1":6000.0},"gradient_variance":40.0,)"
      R"("quarantined":1,"retries":2,"loss_scale":1024.0,"world":1,)"
      R"("batchnorm":"micro"})"
      "\n");
}

TEST(JsonLine, LeavesOutWhatWasNotMeasuredOrIsNotFinite) {
  StepReport report;
  report.grad_norm = std::numeric_limits<double>::quiet_NaN();
  report.loss = std::numeric_limits<double>::infinity();
  report.losses = {{"tokens", std::numeric_limits<double>::infinity()}};
  const json line = json::parse(to_json_line(report));
  for (const char* key :
       {"loss", "losses", "grad_norm", "lr", "lrs", "epoch", "tokens", "batch_samples",
        "epoch_seconds", "micro_batch_seconds", "data_seconds", "checkpoint_seconds",
        "share_of_ceiling", "joules", "peak_bytes", "budget_bytes", "memory"})
    EXPECT_FALSE(line.contains(key)) << key;
  EXPECT_TRUE(line.contains("quarantined"));
  EXPECT_THAT(line.dump(), ::testing::Not(HasSubstr("null")));
}

TEST(JsonLine, SaysWhereBatchNormTookMicroBatches) {
  StepReport report;
  EXPECT_FALSE(json::parse(to_json_line(report)).contains("batchnorm"));
  report.batchnorm = "micro";
  EXPECT_EQ(json::parse(to_json_line(report))["batchnorm"], "micro");
}

TEST(JsonLine, KeepsDoublesToTheBit) {
  StepReport report = full_step();
  report.loss = 0.1 + 0.2;
  EXPECT_EQ(json::parse(to_json_line(report))["loss"].get<double>(), 0.1 + 0.2);
}

TEST(JsonLine, OfAnEventSurvivesAnyReason) {
  const json line = json::parse(to_json_line({"resume", "file \xff\"\n", 4}, 9.5));
  EXPECT_EQ(line["event"], "resume");
  EXPECT_EQ(line["step"], 4);
  EXPECT_EQ(line["time"], 9.5);
  EXPECT_THAT(line["reason"].get<std::string>(), HasSubstr("\"\n"));
}

TEST(JsonLine, OfAStepIsReadBack) {
  const std::string line = to_json_line(full_step());
  const std::optional<StepReport> back = step_from_line(line);
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json_line(*back), line);
}

TEST(JsonLine, OfSomethingElseIsNoStep) {
  for (const std::string line :
       {"", "[]", "{}", R"({"step": 3})", R"({"step": 3, "lr": "high"})", R"({"step":3,"lr":0.1)",
        R"({"step": 3, "lr": 0.1, "losses": 7})", R"({"step": 3, "lr": 0.1, "memory": {}})"})
    EXPECT_FALSE(step_from_line(line)) << line;
  EXPECT_FALSE(step_from_line(to_json_line(Event{.name = "dist", .reason = "", .step = 3}, 5)));
  EXPECT_TRUE(step_from_line(R"({"step": 3, "lr": 0.1})"));
}

TEST_F(JsonlSinkTest, TellsWhichStepsItHas) {
  EXPECT_FALSE(has_step(file_, 3)) << "there is no file";
  sink(0).on_step(full_step());
  sink(3).on_event({.name = "dist", .reason = "ranks changed", .step = 4});
  EXPECT_TRUE(has_step(file_, 3));
  EXPECT_FALSE(has_step(file_, 4)) << "an event is no step";
}

TEST_F(JsonlSinkTest, WritesStepsEvaluationsAndEvents) {
  JsonlSink writer = sink(0);
  writer.on_event({"decision", "micro-batch 4", 0});
  writer.on_step(full_step());
  writer.on_evaluation({.step = 3, .loss = 2.5, .accuracy = 0.75, .weight = 100, .seconds = 0.5});
  const auto written = lines();
  ASSERT_EQ(written.size(), 3u);
  EXPECT_EQ(written[0]["reason"], "micro-batch 4");
  EXPECT_EQ(written[1]["loss"], 2.25);
  EXPECT_EQ(written[2]["eval_loss"], 2.5);
  EXPECT_EQ(written[2]["eval_accuracy"], 0.75);
  EXPECT_EQ(written[2]["weight"], 100);
  EXPECT_EQ(written[2]["time"], 5.0);
  EXPECT_EQ(warnings_.str(), "");
}

TEST_F(JsonlSinkTest, RemovesStepsThatAResumedRunTakesAgain) {
  std::ofstream(file_) << "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"eval_loss\":1.5}\n"
                       << "{\"step\":3}\n{\"step\":2,\"event\":\"resume\",\"reason\":\"\"}\n"
                       << "not json\n{\"loss\":1}\n{\"step\":2,\"lo";
  JsonlSink writer = sink(2);
  writer.on_step(full_step());
  const auto written = lines();
  ASSERT_EQ(written.size(), 5u);
  EXPECT_EQ(written[2]["eval_loss"], 1.5);
  EXPECT_EQ(written[3]["event"], "resume");
  EXPECT_EQ(written[4]["step"], 3);
}

TEST_F(JsonlSinkTest, KeepsAWholeFileAsItIs) {
  std::ofstream(file_) << "{\"step\":1}\n";
  const auto before = std::filesystem::last_write_time(file_);
  sink(1);
  EXPECT_EQ(std::filesystem::last_write_time(file_), before);
  EXPECT_EQ(lines().size(), 1u);
}

TEST_F(JsonlSinkTest, LeavesAFileThatHoldsSomethingElseAlone) {
  const std::string notes = "{\"mine\": 1}\n{\"step\": 7}\nnotes\n";
  std::ofstream(file_) << notes;
  EXPECT_THROW(sink(2), Error);
  EXPECT_EQ(read_file(file_), notes);
}

TEST_F(JsonlSinkTest, TakesAFileWhoseOnlyLineIsTorn) {
  std::ofstream(file_) << "{\"step\":1,\"lo";
  sink(0).on_step(full_step());
  EXPECT_EQ(lines().size(), 1u);
}

TEST_F(JsonlSinkTest, SaysWhyItCannotBeOpened) {
  EXPECT_THROW(JsonlSink("/nowhere/metrics.jsonl", 0, warnings_, [] { return 0.0; }), Error);
}

TEST_F(JsonlSinkTest, WarnsOnceOfALimitOnTheFileAndGoesOn) {
  JsonlSink writer = sink(0);
  const testing::FileSizeLimit nothing(0);
  writer.on_step(full_step());
  writer.on_step(full_step());
  const std::string warning = warnings_.str();
  EXPECT_THAT(warning, HasSubstr(file_.string()));
  EXPECT_THAT(warning, HasSubstr("File too large"));
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
}

TEST_F(JsonlSinkTest, GoesOnInANewFileWhereItsOwnIsRemoved) {
  JsonlSink writer = sink(0);
  writer.on_step(full_step());
  std::filesystem::remove(file_);
  writer.on_step(full_step());
  writer.on_step(full_step());
  EXPECT_EQ(lines().size(), 2U);
  const std::string warning = warnings_.str();
  EXPECT_THAT(warning, HasSubstr("the file was removed"));
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
}

TEST_F(JsonlSinkTest, TakesBackALineThatWasCutShort) {
  const auto line_bytes = static_cast<rlim_t>(to_json_line(full_step()).size());
  {
    JsonlSink writer = sink(0);
    const testing::FileSizeLimit limit(line_bytes + line_bytes / 2);
    writer.on_step(full_step());
    writer.on_step(full_step());
  }
  EXPECT_EQ(std::filesystem::file_size(file_), line_bytes);
  EXPECT_EQ(lines().size(), 1u);
  EXPECT_THAT(warnings_.str(), HasSubstr("warning: "));
}

std::int64_t bytes_of(const std::string& metrics, std::int64_t last_step) {
  std::istringstream stream(metrics);
  const std::int64_t bytes = bytes_of_metrics(stream, last_step);
  EXPECT_EQ(stream.tellg(), 0) << "it can be read from its beginning";
  return bytes;
}

TEST(BytesOfMetrics, EndWithTheLastLineOfAStep) {
  const std::string one = "{\"step\":1}\n", two = "{\"step\":2}\n", three = "{\"step\":3}\n";
  const std::string all = one + two + "{\"step\":2,\"event\":\"e\"}\n" + three;
  EXPECT_EQ(bytes_of(all, 1), std::ssize(one));
  EXPECT_EQ(bytes_of(all, 2), std::ssize(all) - std::ssize(three));
  EXPECT_EQ(bytes_of(all, 3), std::ssize(all));
  EXPECT_EQ(bytes_of(all, 9), std::ssize(all));
  EXPECT_EQ(bytes_of(all, 0), 0);
  EXPECT_EQ(bytes_of("", 5), 0);
}

TEST(BytesOfMetrics, LeaveATornLineOut) {
  const std::string whole = "{\"step\":1}\n";
  EXPECT_EQ(bytes_of(whole + "{\"step\":2", 5), std::ssize(whole));
  EXPECT_EQ(bytes_of(whole + "{\"st\n", 5), std::ssize(whole));
  EXPECT_EQ(bytes_of("{\"step\":2", 5), 0);
}

/// The end that is read first has only later lines, and starts in the middle of a line.
TEST(BytesOfMetrics, AreFoundFarFromTheEnd) {
  const std::string first = "{\"step\":1}\n";
  std::string later;
  while (later.size() < 300'000)
    later += "{\"step\":2,\"reason\":\"" + std::string(777, 'x') + "\"}\n";
  EXPECT_EQ(bytes_of(first + later, 1), std::ssize(first));
  EXPECT_EQ(bytes_of(first + later, 2), std::ssize(first + later));
}

/// A copy of a run's folder with hard links (rsync --link-dest) keeps its contents.
TEST_F(JsonlSinkTest, LeavesTheOtherNameOfItsFileAlone) {
  sink(0).on_step(full_step());
  const std::filesystem::path copy = file_.string() + ".copy";
  std::filesystem::remove(copy);
  std::filesystem::create_hard_link(file_, copy);
  const std::string before = read_file(copy);
  sink(3).on_step(full_step());
  EXPECT_EQ(lines().size(), 2U);
  EXPECT_EQ(read_file(copy), before);
  std::filesystem::remove(copy);
}

TEST_F(JsonlSinkTest, WritesThroughNoLink) {
  const std::filesystem::path target = file_.string() + ".target";
  std::filesystem::remove(target);
  std::filesystem::create_symlink(target, file_);
  EXPECT_THROW(sink(0), Error);
  EXPECT_FALSE(std::filesystem::exists(target));
}

}  // namespace
}  // namespace accrue::observe
