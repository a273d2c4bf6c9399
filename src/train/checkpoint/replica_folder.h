#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "train/checkpoint/checkpoint_folders.h"
#include "train/checkpoint/run_claim.h"
#include "train/checkpoint/run_copies.h"

namespace accrue::train {

/// Copies a run into its replica, one thing at a time, while the run goes on. The replica is a run
/// directory at any moment: what is in it is whole, and comes in such an order that a process that
/// is killed leaves one from which the run can be resumed.
class ReplicaFolder {
 public:
  explicit ReplicaFolder(RunCopies run, RunTenure tenure = {})
      : run_(std::move(run)), tenure_(std::move(tenure)) {}

  const std::filesystem::path& path() const { return run_.replica()->root(); }

  /// Claims the folder, unless it is claimed already, and makes it where it was never there: one
  /// that was there and is gone does not come back by itself, nor is the mount point taken that is
  /// left of it. Throws an Error if it cannot be used.
  void claim();
  /// Copies the run's checkpoint of step `prune.newest` with all that a resumption from it reads,
  /// and removes those that `prune` says. A checkpoint that is removed from the run meanwhile is
  /// copied all the same, once its files are open. Returns false, and does nothing, where it is
  /// gone already. Throws if it cannot be copied whole, or is not as it was written: the copies
  /// before are untouched then.
  bool copy(const PruneOptions& prune);
  /// Brings run.json, config.toml and metrics.jsonl up to date, the last as far as `step`.
  void copy_record(std::int64_t step);
  /// give_up_after() in the replica.
  std::string give_up_after(std::int64_t step);

 private:
  void expect_no_other_disk() const;
  void copy_first_files();
  void copy_metrics(std::int64_t step);

  RunCopies run_;
  RunTenure tenure_;
  std::unique_ptr<RunClaim> claim_;
  std::optional<dev_t> disk_;  ///< that the folder was on; none: it was never there
};

}  // namespace accrue::train
