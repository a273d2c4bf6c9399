#include "observe/history/noted_metrics.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/checksum.h"
#include "observe/history/run_folder.h"
#include "observe/history/run_history.h"

namespace accrue::observe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A run with lines of 6 steps and a checkpoint of each second of them.
class ChangeOfMetrics : public RunFolder {
 protected:
  void SetUp() override {
    RunFolder::SetUp();
    for (int step = 1; step <= 6; ++step) {
      metrics_ += line_of(step, "3");
      if (step % 2 == 0) note(step, metrics_, step);
    }
    write("metrics.jsonl", metrics_);
  }

  static std::string line_of(int step, const std::string& loss) {
    return R"({"step":)" + std::to_string(step) + R"(,"loss":)" + loss + "}\n";
  }
  void note(int step, const std::string& content, int lines) const {
    const std::string folder = "checkpoints/step-0000000" + std::to_string(step);
    write(folder + "/manifest.json", "{}");
    write(folder + "/state.json",
          json{{"step", step}, {"metrics", {{"lines", lines}, {"digest", checksum_of(content)}}}}
              .dump());
  }
  std::string change(const json& run_json = json::object()) const {
    return change_of_metrics(folder_, run_json);
  }
  static json resumed_after(int step) {
    return json::parse(R"({"resumed":[{"step":)" + std::to_string(step) + "}]}");
  }

  std::string metrics_;
};

TEST_F(ChangeOfMetrics, IsNoneOfWhatTheRunWrote) {
  EXPECT_EQ(change(), "");
  write("metrics.jsonl", metrics_ + line_of(7, "3") + "{\"st");
  EXPECT_EQ(change(), "") << "with later lines";
  write("metrics.jsonl", "a note of a person's\n" + metrics_);
  EXPECT_EQ(change(), "") << "a line that does not count";
}

TEST_F(ChangeOfMetrics, IsReportedOfAnyLineThatIsNoted) {
  for (int step = 1; step <= 6; ++step) {
    std::string changed;
    for (int other = 1; other <= 6; ++other) changed += line_of(other, other == step ? "1" : "3");
    write("metrics.jsonl", changed);
    EXPECT_THAT(change(), HasSubstr("up to step 6")) << step;
  }
  write("metrics.jsonl", metrics_.substr(0, metrics_.size() / 2));
  EXPECT_THAT(change(), HasSubstr("up to step 6"));
  const RunHistory run = read_run(folder_);
  EXPECT_THAT(run.changes, ElementsAre(HasSubstr("metrics.jsonl: it is not as the run wrote it")));
  EXPECT_THAT(run.remarks, ::testing::Contains(run.changes.front()));
}

TEST_F(ChangeOfMetrics, DoesNotGoByCheckpointsOfAnAttemptThatWasGivenUp) {
  const std::string kept = metrics_.substr(0, 2 * line_of(1, "3").size());
  const std::string gone_on = kept + line_of(3, "2");
  write("metrics.jsonl", gone_on);
  EXPECT_EQ(change(resumed_after(2)), "");
  EXPECT_THAT(change(), HasSubstr("up to step 6")) << "of a run that was never resumed";
  note(3, gone_on, 3);
  EXPECT_EQ(change(resumed_after(2)), "") << "with a checkpoint of the attempt since";
  write("metrics.jsonl", line_of(1, "1") + line_of(2, "3") + line_of(3, "2"));
  EXPECT_THAT(change(resumed_after(2)), HasSubstr("up to step 2"));
}

TEST_F(ChangeOfMetrics, IsUnknownWhereNothingIsNoted) {
  write("metrics.jsonl", line_of(1, "1"));
  for (const char* state : {"{}", "{\"step\":", R"({"step":2,"metrics":{"lines":"2"}})",
                            R"({"step":2,"metrics":{"lines":1,"digest":7}})"})
    for (const int step : {2, 4, 6})
      write("checkpoints/step-0000000" + std::to_string(step) + "/state.json", state);
  EXPECT_EQ(change(), "");
  std::filesystem::remove(folder_ / "metrics.jsonl");
  EXPECT_EQ(change(), "");
}

TEST_F(ChangeOfMetrics, IsReportedOfRunJsonByItsOwnChecksum) {
  write("run.json", R"({"seed":7,"checksum":"0123456789abcdef"})");
  EXPECT_THAT(read_run(folder_).changes, ElementsAre(HasSubstr("run.json: it changed")));
  write("run.json", R"({"seed":7})");
  EXPECT_THAT(read_run(folder_).changes, IsEmpty());
}

}  // namespace
}  // namespace accrue::observe
