#include "observe/history/run_list.h"

#include <gmock/gmock.h>

#include "observe/history/run_folder.h"
#include "support/errors.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunList : public RunFolder {
 protected:
  std::vector<std::string> found(const fs::path& folder) const {
    std::vector<std::string> names;
    for (const fs::path& run : find_runs(folder))
      names.push_back(run.lexically_relative(folder_).string());
    return names;
  }
};

TEST_F(RunList, FindsRunsBelowAFolderAndNothingElse) {
  for (const char* run :
       {"b", "a/deep/run", "1/2/3/4", "1/2/3/5/6", "b/checkpoints/inner", ".hidden/run"})
    write(std::string(run) + "/run.json", "{}");
  write("only_metrics/metrics.jsonl", "");
  write("notes/readme.md", "");
  write("file", "");
  EXPECT_THAT(found(folder_), ElementsAre("1/2/3/4", "a/deep/run", "b", "only_metrics"));
  EXPECT_THAT(found(folder_ / "b"), ElementsAre("b")) << "the folder itself may be one";
  EXPECT_THAT(found(folder_ / "notes"), IsEmpty());
}

TEST_F(RunList, FollowsLinksWithoutGoingInCircles) {
  write("elsewhere/run/run.json", "{}");
  fs::create_directories(folder_ / "runs");
  fs::create_directory_symlink("..", folder_ / "runs" / "above");
  fs::create_directory_symlink("../elsewhere/run", folder_ / "runs" / "linked");
  fs::create_directory_symlink("nowhere", folder_ / "runs" / "broken");
  EXPECT_THAT(found(folder_ / "runs"), ElementsAre("runs/above/elsewhere/run"));
  EXPECT_THAT(found(folder_), ElementsAre("elsewhere/run"));
}

TEST_F(RunList, RefusesWhatIsNoFolder) {
  EXPECT_THAT(usage_message([&] { find_runs(folder_ / "nowhere"); }), HasSubstr("no such folder"));
  EXPECT_THAT(usage_message([&] { find_runs(write("file", "")); }), HasSubstr("received a file"));
}

TEST_F(RunList, BeginsWithTheRunThatStartedLast) {
  write("old/run.json", R"({"started":"2026-01-01T00:00:00Z"})");
  write("new/run.json", R"({"started":"2026-01-03T00:00:00Z"})");
  write("middle/metrics.jsonl", "{\"step\":1,\"time\":1767312000,\"loss\":2}\n{\"st");
  write("unknown/run.json", "{}");
  std::vector<std::string> names;
  for (const ListedRun& run : list_runs(folder_)) names.push_back(run.root.filename().string());
  EXPECT_THAT(names, ElementsAre("new", "middle", "old", "unknown"));
  const ListedRun middle = list_runs(folder_)[1];
  EXPECT_EQ(middle.result.last_loss, 2);
  EXPECT_THAT(middle.remarks,
              ElementsAre(HasSubstr("run.json"), HasSubstr("the last line is half-written")));
}

}  // namespace
}  // namespace accrue::observe
