#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace accrue::testing {

/// Makes the folder of a run that ended look like that of one that was killed before its first
/// checkpoint: without checkpoints, and with no end in run.json.
inline void leave_as_killed_at_start(const std::filesystem::path& run) {
  std::filesystem::remove_all(run / "checkpoints");
  nlohmann::json record = nlohmann::json::parse(std::ifstream(run / "run.json"));
  record.erase("ended");
  record.erase("checksum");
  std::ofstream(run / "run.json") << record;
}

}  // namespace accrue::testing
