#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace accrue::observe {

/// The value in a column for a step that has none.
inline constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// A separate folder for each test, in which it writes runs itself.
class RunFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("history_") + test->test_suite_name() + "_" + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Writes a file in the folder, and creates its parent folders.
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

  std::filesystem::path folder_;
};

}  // namespace accrue::observe
