#include "observe/report/report_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/atomic_file.h"
#include "observe/report/watch.h"
#include "support/errors.h"

namespace accrue::observe {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ReportFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("accrue_report_file_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "run");
    write("run/run.json", "{}");
    write("run/metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\n");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  fs::path folder_;
};

TEST_F(ReportFile, GoesIntoTheFolderOfOneRunAndOfSeveralIntoTheCurrentOne) {
  EXPECT_EQ(default_report_file({"runs/a"}), fs::path("runs/a/report.html"));
  EXPECT_EQ(default_report_file({"runs/a", "runs/b"}), fs::path("report.html"));
}

TEST_F(ReportFile, IsWrittenAndReplaced) {
  const fs::path file = folder_ / "run/report.html";
  EXPECT_EQ(write_report({folder_ / "run"}, file).last_step, 1);
  const std::string first = read_file(file);
  write("run/metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": 2.25}\n");
  const WrittenReport second = write_report({folder_ / "run"}, file);
  EXPECT_EQ(second.last_step, 2);
  EXPECT_EQ(second.bytes, fs::file_size(file));
  EXPECT_NE(read_file(file), first);
}

TEST_F(ReportFile, ReplacesNothingButReports) {
  write("mine.html", "<!doctype html>\n<html>mine");
  EXPECT_THAT(accrue::testing::usage_message(
                  [&] { write_report({folder_ / "run"}, folder_ / "mine.html"); }),
              HasSubstr("which is something else; try --out with another name"));
  EXPECT_EQ(read_file(folder_ / "mine.html"), "<!doctype html>\n<html>mine");
}

TEST_F(ReportFile, HasToBeAFileInAFolder) {
  EXPECT_THAT(accrue::testing::usage_message([&] { require_report_place(folder_); }),
              HasSubstr("a folder"));
  EXPECT_THAT(
      accrue::testing::usage_message([&] { require_report_place(folder_ / "none/report.html"); }),
      HasSubstr("whose folder does not"));
}

TEST_F(ReportFile, IsOldAsSoonAsTheRunGoesOn) {
  const std::vector<fs::path> runs{folder_ / "run"};
  const std::string before = state_of_run_files(runs);
  EXPECT_EQ(state_of_run_files(runs), before);
  write("run/metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2}\n");
  const std::string after = state_of_run_files(runs);
  EXPECT_NE(after, before);
  fs::remove(folder_ / "run/run.json");
  EXPECT_NE(state_of_run_files(runs), after);
}

TEST(ReportPause, GivesTrainingNineTenthsOfTheTime) {
  EXPECT_EQ(pause_after(0.001), 1);
  EXPECT_EQ(pause_after(2), 18);
}

}  // namespace
}  // namespace accrue::observe
