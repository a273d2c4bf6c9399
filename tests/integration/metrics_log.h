#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/atomic_file.h"

namespace accrue::testing {

/// The lines of metrics.jsonl of a run that ended.
class MetricsLog {
 public:
  explicit MetricsLog(const std::filesystem::path& run) {
    std::istringstream content(read_file(run / "metrics.jsonl"));
    for (std::string line; std::getline(content, line);)
      lines_.push_back(nlohmann::json::parse(line));
  }

  /// The reasons of the events with this name.
  std::vector<std::string> events(const std::string& name) const {
    std::vector<std::string> reasons;
    for (const nlohmann::json& line : lines_)
      if (line.value("event", "") == name) reasons.push_back(line["reason"]);
    return reasons;
  }
  /// The numbers of the steps.
  std::vector<int> steps() const {
    std::vector<int> steps;
    for (const nlohmann::json& line : lines_)
      if (line.contains("lr")) steps.push_back(line["step"]);
    return steps;
  }

 private:
  std::vector<nlohmann::json> lines_;
};

}  // namespace accrue::testing
