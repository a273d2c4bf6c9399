#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"
#include "train/checkpoint/window_middle.h"

namespace accrue::train {

/// A checkpoint as found on the disk.
struct StoredCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path folder;
  std::int64_t bytes = 0;  ///< of all its files together
  std::string damage;      ///< what differs from what was written, with file and tensor; or empty
  bool has_checksums = true;        ///< false: an earlier version's, only lengths can be compared
  std::optional<double> best_eval;  ///< set if it is the best evaluated one so far
  /// Set if it was written in the middle of the next step's window.
  std::optional<WindowMiddle> middle;
};

enum class Thoroughness {
  bookkeeping,  ///< lengths and state.json
  contents,     ///< also the checksum of every tensor: all files are read once
};

/// All checkpoints of a run by step, with damaged ones. Throws a usage Error if this is not a run.
std::vector<StoredCheckpoint> list_checkpoints(const RunDirectory& run, Thoroughness thoroughness);

/// The damage to the other files of a run that have checksums, a sentence each: run.json, the part
/// of metrics.jsonl that a checkpoint records, and the kept tokenizer. All of them are read.
std::vector<std::string> damage_outside_checkpoints(const RunDirectory& run);

struct Pruned {
  std::vector<StoredCheckpoint> removed, kept;
  std::vector<std::string> remarks;  ///< RunClaim::remarks()
};
/// Removes all checkpoints but the `keep` (>= 1) newest intact ones and the best evaluated one;
/// damaged ones only if `damaged` is set. Reads all of them first. Throws a usage Error if this is
/// not a run, or another process works on it.
Pruned prune(const RunDirectory& run, std::int64_t keep, bool damaged);

}  // namespace accrue::train
