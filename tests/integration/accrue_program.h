#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/run_program.h"

namespace accrue::testing {

/// Runs the command line in a separate folder, which is removed afterwards.
class AccrueProgram : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("accrue_") + test->test_suite_name() + "_" + test->name() + "_" +
               std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Program start(Words arguments, Load load = Load::once) const {
    arguments.insert(arguments.begin(), ACCRUE_PROGRAM);
    return {folder_, std::move(arguments), load};
  }
  Program::Result accrue(Words arguments, Load load = Load::once) const {
    return start(std::move(arguments), load).wait();
  }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  /// Writes run.toml for a model of 25 k parameters on a repeating text.
  void write_small_run() const {
    std::string text;
    for (int line = 0; line < 400; ++line) text += "the quick brown fox jumps over the lazy dog\n";
    write("text.txt", text);
    write("run.toml",
          "[run]\nout = \"out\"\nsteps = 4\nthreads = 1\ncheckpoint_every = 2\n"
          "[model]\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 16\n"
          "[data]\ntrain = [\"text.txt\"]\nval_fraction = 0.02\n"
          "[batch]\ntokens = 256\nmicro = 4\n[optim]\nlr = 1e-2\n");
  }

  std::filesystem::path folder_;
};

}  // namespace accrue::testing
