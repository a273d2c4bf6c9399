#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "accrue/memory/caching_allocator.h"
#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"
#include "accrue/train/trainer.h"

namespace accrue::train::testing {

/// A separate folder for each test of each process, with a few KiB of text to train on. A test
/// neither inherits the process's memory budget from another test's run, nor leaves one.
class TinyRun : public ::testing::Test {
 protected:
  void SetUp() override {
    memory::set_budget(std::nullopt);
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name =
        "accrue_" + std::to_string(getpid()) + "_" + info->test_suite_name() + "_" + info->name();
    std::replace(name.begin(), name.end(), '/', '_');
    folder_ = std::filesystem::path(::testing::TempDir()) / name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream text(folder_ / "text.txt");
    for (int i = 0; i < 300; ++i) text << "line " << i * 7919 % 1000 << " of a small text\n";
  }
  void TearDown() override {
    memory::set_budget(std::nullopt);
    std::filesystem::remove_all(folder_);
  }

  Config config(const std::string& out = "run") const {
    Config c;
    c.run.out = (folder_ / out).string();
    c.run.steps = 6;
    c.run.threads = 2;
    c.model.layers = 2;
    c.model.heads = 2;
    c.model.width = 32;
    c.model.context = 16;
    c.data.train = {(folder_ / "text.txt").string()};
    c.data.val_fraction = 0.05;
    c.batch.tokens = 7 * 16;
    c.batch.micro = 2;
    c.optim.lr = 1e-2;
    c.observe.progress = observe::ProgressStyle::off;
    return c;
  }

  static NamedParameters parameters_of(const Config& c) {
    return load_model(RunDirectory(c.run.out), std::nullopt)->parameters();
  }

  static void expect_same_bits(const NamedParameters& a, const NamedParameters& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
  }

  std::filesystem::path folder_;
};

}  // namespace accrue::train::testing
