#include "core/working_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace accrue {
namespace {

namespace fs = std::filesystem;

/// A folder of its own; git looks for no working copy above it.
class WorkingCopy : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path base = fs::canonical(::testing::TempDir());
    ::setenv("GIT_CEILING_DIRECTORIES", base.c_str(), 1);
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = base / (std::string("accrue_working_copy_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "inside");
  }
  void TearDown() override { fs::remove_all(folder_); }

  int git(const std::string& words) const {
    return std::system(("git -C '" + folder_.string() +
                        "' -c user.name=test -c user.email=test@example.com " + words +
                        " >/dev/null 2>&1")
                           .c_str());
  }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
  }
  void commit() const {
    write("file.txt", "one");
    ASSERT_EQ(git("init"), 0);
    ASSERT_EQ(git("add file.txt"), 0);
    ASSERT_EQ(git("commit -m first"), 0);
  }

  fs::path folder_;
};

TEST_F(WorkingCopy, HasTheCommitAlsoFromAFolderInside) {
  commit();
  const auto found = commit_of(folder_);
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, ::testing::MatchesRegex("[0-9a-f]{40}"));
  EXPECT_EQ(commit_of(folder_ / "inside"), found);
  std::string head;
  std::ifstream heads(folder_ / ".git/HEAD");
  std::getline(heads, head);
  std::string hash;
  std::ifstream(folder_ / ".git" / head.substr(head.find(' ') + 1)) >> hash;
  EXPECT_EQ(*found, hash) << "as git keeps it";
}

TEST_F(WorkingCopy, IsDirtyWhereAFileThatGitKnowsWasModified) {
  commit();
  const std::string clean = commit_of(folder_).value_or("");
  write("other.txt", "git does not know it");
  EXPECT_EQ(commit_of(folder_), clean);
  write("file.txt", "two");
  EXPECT_EQ(commit_of(folder_), clean + "-dirty");
}

TEST_F(WorkingCopy, OfATagIsItsCommit) {
  commit();
  const auto before = commit_of(folder_);
  ASSERT_EQ(git("tag -a v1 -m v1"), 0);
  EXPECT_EQ(commit_of(folder_), before);
}

TEST_F(WorkingCopy, IsNoneWithoutGitOrACommit) {
  EXPECT_FALSE(commit_of(folder_));
  EXPECT_FALSE(commit_of(folder_ / "missing"));
  ASSERT_EQ(git("init"), 0);
  EXPECT_FALSE(commit_of(folder_));
  commit();
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder_.c_str(), 1);
  EXPECT_FALSE(commit_of(folder_)) << "no git";
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(commit_of(folder_)) << "the control";
}

TEST_F(WorkingCopy, StartsNoMonitorAndWritesNothing) {
  commit();
  write("monitor", "#!/bin/sh\ntouch '" + (folder_ / "started").string() + "'\n");
  fs::permissions(folder_ / "monitor", fs::perms::owner_all);
  ASSERT_EQ(git("config core.fsmonitor '" + (folder_ / "monitor").string() + "'"), 0);
  const auto index = fs::last_write_time(folder_ / ".git/index");
  EXPECT_TRUE(commit_of(folder_));
  EXPECT_FALSE(fs::exists(folder_ / "started"));
  EXPECT_EQ(fs::last_write_time(folder_ / ".git/index"), index);
  git("status");
  EXPECT_TRUE(fs::exists(folder_ / "started")) << "the control: git itself starts it";
}

}  // namespace
}  // namespace accrue
