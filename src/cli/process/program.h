#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "accrue/train/custom.h"

namespace accrue::cli {

/// The program that has this command line: accrue, or one that provides a model.
struct Program {
  std::string name = "accrue";
  train::Custom custom = {};

  bool brings_a_model() const { return static_cast<bool>(custom.model); }
  /// The config with the program's own parts. Without a file it consists of `overrides`.
  train::Config load_config(const std::filesystem::path& file,
                            const std::vector<std::string>& overrides) const;
  train::Config with_its_model(train::Config config) const;
};

/// The program that was called by `path`.
Program program_of(const std::filesystem::path& path, train::Custom custom);

}  // namespace accrue::cli
