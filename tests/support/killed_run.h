#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace accrue::testing {

/// Makes run.json of a run that ended look like that of one that was killed: with no end.
inline void leave_as_killed(const std::filesystem::path& run) {
  nlohmann::json record = nlohmann::json::parse(std::ifstream(run / "run.json"));
  record.erase("ended");
  record.erase("checksum");
  std::ofstream(run / "run.json") << record;
}

/// Makes the folder of a run that ended look like that of one that was killed before its first
/// checkpoint: without checkpoints, with no end in run.json, and with the steps before the first
/// one that logs a checkpoint.
inline void leave_as_killed_at_start(const std::filesystem::path& run) {
  std::filesystem::remove_all(run / "checkpoints");
  leave_as_killed(run);
  std::string kept;
  {
    std::ifstream lines(run / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"checkpoint_seconds\"") != std::string::npos) break;
      kept += line + "\n";
    }
  }
  std::ofstream(run / "metrics.jsonl") << kept;
}

}  // namespace accrue::testing
