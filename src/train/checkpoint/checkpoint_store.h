#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"
#include "train/checkpoint/window_middle.h"

namespace accrue::train {

/// A checkpoint as it lies on the disk.
struct StoredCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path folder;
  std::int64_t bytes = 0;  ///< all its files together
  std::string damage;      ///< what is not as it was written, with file and tensor; empty: nothing
  bool has_checksums = true;        ///< false: an earlier version's, only lengths can be compared
  std::optional<double> best_eval;  ///< set where it is the best evaluated one so far
  /// Set where it is in the middle of the next step's window.
  std::optional<WindowMiddle> middle;
};

enum class Thoroughness {
  bookkeeping,  ///< lengths and state.json
  contents,     ///< and the checksum of every tensor: all files are read once
};

/// All checkpoints of a run by step, damaged ones too. Throws a usage Error if this is no run.
std::vector<StoredCheckpoint> list_checkpoints(const RunDirectory& run, Thoroughness thoroughness);

/// What is damaged of the other files of a run that have checksums, a sentence each: run.json,
/// metrics.jsonl as far as a checkpoint notes it, and the kept tokenizer. All of them are read.
std::vector<std::string> damage_beside_checkpoints(const RunDirectory& run);

struct Pruned {
  std::vector<StoredCheckpoint> removed, kept;
  std::vector<std::string> remarks;  ///< RunClaim::remarks()
};
/// Removes all but the `keep` (>= 1) newest checkpoints that are as they were written, and the best
/// evaluated one; damaged ones only if `damaged` is set. Reads all of them first. Throws a usage
/// Error if this is no run, or a process works on it.
Pruned prune(const RunDirectory& run, std::int64_t keep, bool damaged);

}  // namespace accrue::train
