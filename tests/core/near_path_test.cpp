#include "core/near_path.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace accrue {
namespace {

namespace fs = std::filesystem;

class NearPath : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("near_path_test_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "runs" / "first");
    for (const char* name : {"accrue.toml", "notes.txt", "a"}) std::ofstream(folder_ / name) << "x";
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The found path below the folder; "none" if there is none.
  std::string near(const std::string& path) const {
    const auto found = near_path(folder_ / path);
    return found ? fs::relative(*found, folder_).string() : "none";
  }

  fs::path folder_;
};

TEST_F(NearPath, IsTheNameWithFewEdits) {
  EXPECT_EQ(near("acrue.toml"), "accrue.toml");
  EXPECT_EQ(near("accrue.tml"), "accrue.toml");
  EXPECT_EQ(near("note.txt"), "notes.txt");
  EXPECT_EQ(near("runs/frist"), "runs/first");
  EXPECT_EQ(near_path_or(folder_ / "run", "another path"), (folder_ / "runs").string());
}

TEST_F(NearPath, IsNoneIfNothingIsNear) {
  for (const char* path : {"gpt.toml", "b", "nowhere/accrue.toml", "runs/second", "", "notes.txt"})
    EXPECT_EQ(near(path), "none") << path;
  EXPECT_EQ(near(std::string(5000, 'a')), "none");
  EXPECT_EQ(near_path_or(folder_ / "gpt.toml", "another path"), "another path");
}

}  // namespace
}  // namespace accrue
