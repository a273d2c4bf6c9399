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

/// Copies a run's checkpoints into its replica on a thread of its own, beside the training. One
/// copy is made at a time; a newer checkpoint takes the place of one that waits. What fails is
/// remarked once, tried again with the next checkpoint, and remarked once more when it succeeds; it
/// never throws. If the system starts no thread, copy() makes the copy itself.
class Replica {
 public:
  /// Claims the folder. Throws a usage Error if another process holds it; a folder that cannot
  /// be written is a remark.
  explicit Replica(const RunCopies& run, RunTenure tenure = {});
  /// Waits until all that was asked for is copied, or failed.
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  const std::filesystem::path& path() const { return folder_.path(); }

  /// Asks for a copy of the run's checkpoint of step `prune.newest`, after which the others are
  /// pruned likewise. Returns at once if there is a thread; any thread may call it. To be called
  /// before the run's own checkpoints are pruned: so a checkpoint that is gone has a newer one that
  /// waits.
  void copy(const PruneOptions& prune);
  /// Waits until all that was asked for is copied, or failed. Returns false if `most` is over
  /// before.
  bool finish_within(std::chrono::milliseconds most);
  void finish();
  /// Copies what the run's folder says of its end (run.json, metrics.jsonl as far as `step`), if
  /// the last copy succeeded. After finish().
  void copy_end(std::int64_t step);
  /// give_up_after() in the replica; before anything is asked for.
  std::string give_up_after(std::int64_t step);

  /// What there is to tell since this was asked last, a sentence each.
  std::vector<std::string> take_remarks();

 private:
  void work();
  void copy_waiting(std::unique_lock<std::mutex>& lock);
  /// Notes how an attempt at `what` ended: why it failed, or nothing if it did not. The mutex is
  /// held.
  void note(const std::string& what, const std::optional<std::string>& failure);

  ReplicaFolder folder_;  ///< the thread's, while something was asked for
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
