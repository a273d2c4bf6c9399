#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_copies.h"

namespace accrue::train {

/// What a resume found.
struct Resumed {
  TrainState state;                  ///< a fresh run's if there was no checkpoint
  std::filesystem::path checkpoint;  ///< empty if there was none
  bool has_checksums = true;         ///< VerifiedCheckpoint::has_checksums()
  StoredTensors ranks;               ///< VerifiedCheckpoint::ranks()
  StoredTensors window;              ///< VerifiedCheckpoint::window()
  /// Why a window that the checkpoint is in the middle of begins again; empty if it goes on.
  std::string window_begins_again;
  /// What changed in the data, where that was accepted; empty: nothing.
  std::string data_change;
  /// models::TorchScriptModel::digest(), of the first rank alone, which writes it down.
  std::string module;
  /// What is another TorchScript module than before; empty: none is. A module is code, and whoever
  /// changed it answers for going on with it.
  std::string module_change;
  std::vector<std::string> skipped;  ///< what is wrong with checkpoints that would come before it
  /// Why the checkpoint is the replica's; empty if it is the run's own.
  std::string replica_reason;
  /// Which paths of data changed while the data stayed (moves_in_words); empty: none.
  std::string data_move;
  std::optional<ConfigDifference> batch_change;   ///< the batch that is stated by hand, if another
  std::optional<observe::MetricsRecord> metrics;  ///< VerifiedCheckpoint::metrics()
};

/// Refuses a disk too full for the run's checkpoints before anything is written.
void check_room(std::int64_t needed_bytes, std::int64_t free_bytes, const std::string& where);
/// Bytes that all checkpoints a run keeps take at most.
std::int64_t checkpoint_room(const RunConfig& config, std::int64_t total_steps,
                             std::int64_t model_bytes, std::int64_t optimizer_bytes);
/// Free bytes of the file system that `where` is, or will be, on.
std::int64_t free_bytes_at(std::filesystem::path where);

/// Refuses what may not change between a run's start and its resumption; the message lists what
/// differs. Paths of data may: load_checkpoint() compares the data themselves.
void check_config_unchanged(const Config& started, const Config& now);

/// The bookkeeping of the checkpoint that load_checkpoint() would load, as far as bookkeeping
/// tells; none if the run has no checkpoint yet. Throws a usage Error if the requested one is
/// not whole, or none of the run is.
std::optional<TrainState> state_to_resume(const RunCopies& run, const std::string& requested);

/// The newest checkpoint of the run and its replica that is as it was written; none if there is
/// none yet. Throws a usage Error if all are damaged.
std::optional<VerifiedCheckpoint> newest_checkpoint(const RunCopies& run);

/// Loads the newest checkpoint of the run and its replica that is as it was written, or the
/// `requested` one (a folder or a step), into model and optimizer. Throws a usage Error that names
/// the file and the tensor where the requested one is damaged, or all are, and where the data
/// changed (check_continuity).
Resumed load_checkpoint(const RunCopies& run, const std::string& requested,
                        const DataIdentity& data, bool accept_data, models::Model& model,
                        optim::Optimizer& optimizer);

}  // namespace accrue::train
