#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_copies.h"

namespace accrue::train {

/// The result of load_checkpoint().
struct Resumed {
  TrainState state;                  ///< of a fresh run if there was no checkpoint
  std::filesystem::path checkpoint;  ///< empty if there was none
  bool has_checksums = true;         ///< VerifiedCheckpoint::has_checksums()
  StoredTensors ranks;               ///< VerifiedCheckpoint::ranks()
  StoredTensors window;              ///< VerifiedCheckpoint::window()
  /// Why the window that the checkpoint interrupts restarts; empty if it continues.
  std::string window_begins_again;
  /// The change in the data that was accepted; empty if nothing changed.
  std::string data_change;
  /// models::TorchScriptModel::digest(); set on the first rank, which records it.
  std::string module;
  /// Describes a TorchScript module that differs from the run's; empty if it is the same. A module
  /// is code, and the user who changed it is responsible for continuing with it.
  std::string module_change;
  std::vector<std::string> skipped;  ///< the damage of checkpoints that would come first
  /// Why the replica's checkpoint was used; empty if it is the run's own.
  std::string replica_reason;
  /// Which paths of data changed while the data stayed (moves_in_words); empty if none did.
  std::string data_move;
  std::optional<ConfigDifference> batch_change;   ///< the batch that is stated by hand, if another
  std::optional<observe::MetricsRecord> metrics;  ///< VerifiedCheckpoint::metrics()
};

/// Throws if the disk is too full for the run's checkpoints, before anything is written.
void check_room(std::int64_t needed_bytes, std::int64_t free_bytes, const std::string& where);
/// The most bytes that the checkpoints a run keeps take together.
std::int64_t checkpoint_room(const RunConfig& config, std::int64_t total_steps,
                             std::int64_t model_bytes, std::int64_t optimizer_bytes);
/// Free bytes of the file system that contains, or will contain, `where`.
std::int64_t free_bytes_at(std::filesystem::path where);

/// Refuses what may not change between a run's start and its resumption; the message lists what
/// differs. Paths of data may: load_checkpoint() compares the data themselves.
void check_config_unchanged(const Config& started, const Config& now);

/// The bookkeeping of the checkpoint that load_checkpoint() would load, judged by bookkeeping
/// alone; none if the run has no checkpoint yet. Throws a usage Error if the requested checkpoint
/// is not whole, or the run has no whole one, or has lost all that it had.
std::optional<TrainState> state_to_resume(const RunCopies& run, const std::string& requested);

/// The newest intact checkpoint of the run and its replica; none if there is no checkpoint yet.
/// Throws a usage Error if all are damaged.
std::optional<VerifiedCheckpoint> newest_checkpoint(const RunCopies& run);

/// Loads the newest intact checkpoint of the run and its replica, or the `requested` one (a
/// folder or a step), into model and optimizer. Throws a usage Error that names the file and the
/// tensor if the requested one is damaged, or all are, one if all are lost, and one if the data
/// changed (check_continuity).
Resumed load_checkpoint(const RunCopies& run, const std::string& requested,
                        const DataIdentity& data, bool accept_data, models::Model& model,
                        optim::Optimizer& optimizer);

}  // namespace accrue::train
