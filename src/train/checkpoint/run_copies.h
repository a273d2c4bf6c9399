#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"

namespace accrue::train {

/// The folders that a run is in: its own (run.out) and, if it has one, its replica
/// (run.replica), which has the same layout. Any of the two may be lost, or behind the other.
class RunCopies {
 public:
  /// An empty `replica` is none.
  explicit RunCopies(RunDirectory own, const std::filesystem::path& replica = {});

  const RunDirectory& own() const { return own_; }
  const std::optional<RunDirectory>& replica() const { return replica_; }

  /// Refuses a run directory that cannot be used: without `resume` one that holds a run or anything
  /// else but logs (*.log) and hidden files, with it one that holds none, nor does its replica.
  void check_own(bool resume) const;
  /// Refuses a replica that cannot be used: one that is the run directory, lies in it or around it,
  /// one with files that are no run's, and one that holds a run, unless it is this one that is
  /// resumed. Whether it can be written is not asked.
  void check_replica(bool resume) const;

  /// Whether there is a run to resume.
  bool hold_run() const;
  /// The folder whose config.toml and run.json stand for the run: its own, unless that lost its
  /// config.toml and the replica has one.
  const RunDirectory& record() const;
  /// Copies to the run directory what it lost of the files that a run has beside its checkpoints.
  /// Returns their names. Whoever calls it holds the run (RunClaim). Throws a usage Error if
  /// run.json is damaged after that.
  std::vector<std::string> restore_record() const;

  /// The folders of all checkpoints by step, whole or not; of two of one step the run's own is the
  /// later. What the replica still has of an attempt that was given up is not among them. Throws a
  /// runtime Error if the run's own cannot be listed.
  std::vector<std::filesystem::path> checkpoints() const;
  /// The newest of them whose bookkeeping is whole; none if there is none.
  std::optional<std::filesystem::path> newest_whole() const;
  /// The checkpoint of this step: the run's own, unless that is absent or its bookkeeping damaged,
  /// and the replica has it. Throws a usage Error if neither has it.
  std::filesystem::path checkpoint(std::int64_t step) const;
  bool is_of_replica(const std::filesystem::path& checkpoint) const;

 private:
  std::vector<std::string> restore_from_replica() const;

  RunDirectory own_;
  std::optional<RunDirectory> replica_;
};

}  // namespace accrue::train
