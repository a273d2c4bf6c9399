#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "accrue/train/run_directory.h"
#include "core/atomic_file.h"

namespace accrue::testing {

/// Makes the folder of a run that ended look like that of one that was killed before its first
/// checkpoint: without checkpoints, and with no end in run.json.
inline void leave_as_killed_at_start(const train::RunDirectory& run) {
  std::filesystem::remove_all(run.checkpoints());
  nlohmann::json record = nlohmann::json::parse(read_file(run.run_file()));
  record.erase("ended");
  record.erase("checksum");
  write_file_atomically(run.run_file(), record.dump());
}

}  // namespace accrue::testing
