#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "train/checkpoint/replica_folder.h"

namespace accrue::train {

/// Copies a run's checkpoints into its replica on its own thread, during the training. It makes one
/// copy at a time; a newer checkpoint replaces one that waits. A failure is reported once, tried
/// again with the next checkpoint, and the recovery is reported too; it never throws. If the system
/// cannot start a thread, copy() makes the copy itself.
class Replica {
 public:
  /// Claims the folder. Throws a usage Error if another process holds it; a folder that cannot be
  /// written only adds a remark.
  explicit Replica(const RunCopies& run, RunTenure tenure = {});
  /// Waits until every requested copy is made, or has failed.
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  const std::filesystem::path& path() const { return folder_.path(); }

  /// Requests a copy of the run's checkpoint of step `prune.newest`, after which the replica is
  /// pruned in the same way. Returns at once if there is a thread; may be called from any thread.
  /// Call it before the run's own checkpoints are pruned: then a newer checkpoint waits if an older
  /// one is already gone.
  void copy(const PruneOptions& prune);
  /// Waits until every requested copy is made or has failed. Returns false if `most` passes
  /// first.
  bool finish_within(std::chrono::milliseconds most);
  void finish();
  /// Copies the files that record the run's end (run.json, metrics.jsonl up to `step`), if the last
  /// copy succeeded. Call it after finish().
  void copy_end(std::int64_t step);
  /// give_up_after() in the replica; call it before any copy is requested.
  std::string give_up_after(std::int64_t step);

  /// The remarks since the last call, a sentence each.
  std::vector<std::string> take_remarks();

 private:
  void work();
  void copy_waiting(std::unique_lock<std::mutex>& lock);
  /// Records how an attempt at `what` ended: `failure` is the reason if it failed. Requires the
  /// mutex to be held.
  void note(const std::string& what, const std::optional<std::string>& failure);

  ReplicaFolder folder_;  ///< used by the thread alone while a copy is pending
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<PruneOptions> waiting_;
  bool is_copying_ = false;
  bool ends_ = false;
  bool fails_ = false;  ///< whether the last attempt failed
  std::vector<std::string> remarks_;
  std::thread thread_;
};

}  // namespace accrue::train
