#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"

namespace accrue::train {

/// The folders that hold a run: its own (run.out) and, if there is one, its replica (run.replica),
/// which has the same layout. Either of the two may be lost, or older than the other.
class RunCopies {
 public:
  /// An empty `replica` means there is none.
  explicit RunCopies(RunDirectory own, const std::filesystem::path& replica = {});

  const RunDirectory& own() const { return own_; }
  const std::optional<RunDirectory>& replica() const { return replica_; }

  /// Throws if the run directory cannot be used: without `resume`, if it holds a run or anything
  /// but logs (*.log) and hidden files; with it, if neither it nor its replica holds a run.
  void check_own(bool resume) const;
  /// Throws if the replica cannot be used: if it is the run directory, lies in it or around it, has
  /// files that do not belong to a run, or holds a run other than the one that is resumed. Does not
  /// check whether it can be written.
  void check_replica(bool resume) const;

  /// Whether there is a run to resume.
  bool hold_run() const;
  /// The folder whose config.toml and run.json represent the run: its own, unless that has lost its
  /// config.toml and the replica has one.
  const RunDirectory& record() const;
  /// Copies to the run directory the files besides checkpoints that it has lost, and returns their
  /// names. The caller holds the run (RunClaim). Throws a usage Error if run.json is damaged after
  /// that.
  std::vector<std::string> restore_record() const;

  /// The folders of all checkpoints by step, whole or not; of two with the same step the run's own
  /// comes later. Leaves out what the replica still has of an abandoned attempt. Throws a runtime
  /// Error if the run's own cannot be listed.
  std::vector<std::filesystem::path> checkpoints() const;
  /// The newest of them with whole bookkeeping; none if there is none.
  std::optional<std::filesystem::path> newest_whole() const;
  /// The checkpoint of this step: the run's own, unless it is absent or its bookkeeping is damaged
  /// and the replica has it. Throws a usage Error if neither has it.
  std::filesystem::path checkpoint(std::int64_t step) const;
  bool is_of_replica(const std::filesystem::path& checkpoint) const;

 private:
  std::vector<std::string> restore_from_replica() const;

  RunDirectory own_;
  std::optional<RunDirectory> replica_;
};

}  // namespace accrue::train
