#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace accrue::testing {

/// A /proc and a /sys that a test writes, in a folder that is removed with it.
class SystemTree {
 public:
  SystemTree() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) /
            ("accrue_system_" + std::string(test->test_suite_name()) + "_" + test->name());
    std::filesystem::remove_all(root_);
  }
  ~SystemTree() { std::filesystem::remove_all(root_); }
  SystemTree(const SystemTree&) = delete;
  SystemTree& operator=(const SystemTree&) = delete;

  const std::filesystem::path& root() const { return root_; }
  void write(const std::string& path, const std::string& content) const {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }

 private:
  std::filesystem::path root_;
};

}  // namespace accrue::testing
