#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"

namespace accrue::train::testing {

/// The lines of a run's metrics.jsonl that are steps.
inline std::vector<nlohmann::json> lines_of(const Config& config) {
  std::ifstream lines(RunDirectory(config.run.out).metrics_file());
  std::vector<nlohmann::json> steps;
  for (std::string line; std::getline(lines, line);)
    if (nlohmann::json object = nlohmann::json::parse(line); object.contains("loss"))
      steps.push_back(object);
  return steps;
}

}  // namespace accrue::train::testing
