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

/// Copies a run into its replica, one item at a time, during the run. The replica is a valid run
/// directory at any moment: its files are whole and arrive in such an order that a killed process
/// leaves one from which the run can be resumed.
class ReplicaFolder {
 public:
  explicit ReplicaFolder(RunCopies run, RunTenure tenure = {})
      : run_(std::move(run)), tenure_(std::move(tenure)) {}

  const std::filesystem::path& path() const { return run_.replica()->root(); }

  /// Claims the folder, unless it is claimed already, and creates it if it never existed. A folder
  /// that existed and is gone is not created again, and an empty mount point left in its place is
  /// not used. Throws an Error if the folder cannot be used.
  void claim();
  /// Copies the run's checkpoint of step `prune.newest` with everything that a resumption from it
  /// reads, and removes the checkpoints that `prune` names. A checkpoint that is removed from the
  /// run meanwhile is copied all the same, once its files are open. Returns false, and does
  /// nothing, if it is gone already. Throws if it cannot be copied whole or differs from what was
  /// written; earlier copies are untouched then.
  bool copy(const PruneOptions& prune);
  /// Brings run.json, config.toml and metrics.jsonl up to date, the last up to `step`.
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
  std::optional<dev_t> disk_;  ///< the folder's device; none if the folder never existed
};

}  // namespace accrue::train
