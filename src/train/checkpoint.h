#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"
#include "accrue/memory/recovery.h"
#include "accrue/models/model.h"
#include "accrue/optim/optimizer.h"
#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"
#include "rank_record.h"

namespace accrue::train {

/// Of what is kept in compression among what a checkpoint holds of several ranks.
inline constexpr const char* compression_prefix = "compression.";
/// Of the inner optimizer of a rank after the first, whose own is the checkpoint's optimizer.
std::string optimizer_prefix(std::int64_t rank);

/// Where a run stands between two optimizer steps. With the parameters and the optimizer's state it
/// is all that the next step depends on: randomness and data order are functions of seed and
/// window.
struct TrainState {
  std::int64_t step = 0;    ///< optimizer steps taken
  std::int64_t window = 0;  ///< windows done; more than `step` where a window had no weight
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double elapsed = 0;  ///< seconds, over all resumptions
  /// The plan: a resume does not measure anew.
  memory::RecoveryState micro_batches;
  Recompute recompute = Recompute::none;
  std::vector<RankRecord> ranks = {};  ///< by rank; of a checkpoint none where one was alone
  std::optional<double> best_eval;
  std::optional<std::int64_t> best_step;
  std::string data_fingerprint;
  /// Whose inner optimizers the checkpoint holds, where each rank has its own; none: one for all.
  std::optional<std::int64_t> inner_optimizers;
  std::vector<int> units;  ///< of fixed-point sums (accum::GradientBuffer::units); else empty
};

/// What a checkpoint holds. Parameters and the optimizer's state are the live ones: they must not
/// change until the checkpoint is written. What a forward pass changes (Trainable::buffers) is
/// copied.
struct CheckpointContent {
  TrainState state;
  ModelConfig shape;  ///< what the model was made with
  NamedParameters model, optimizer;
  /// What several ranks need besides, under prefixes; in memory of its own.
  NamedParameters ranks = {};
  /// Instead of `optimizer`, where no process has all of it: read as it is written, each once.
  StoredTensors gathered = {};
};
CheckpointContent checkpoint_content(const TrainState& state, const ModelConfig& shape,
                                     const models::Model& model, const optim::Optimizer& optimizer);

/// Writes checkpoints/step-N whole or not at all: a hidden folder, fsync, rename. Throws a runtime
/// Error where the disk is full or not writable; earlier checkpoints are untouched then. Any
/// thread.
std::filesystem::path write_checkpoint(const RunDirectory& run, const CheckpointContent& content);

/// Only the bookkeeping of a checkpoint. Throws a usage Error where the checkpoint is not whole.
TrainState read_checkpoint_state(const std::filesystem::path& checkpoint);

/// `config` with the shape of the checkpoint's model: what `model.from` once told.
Config with_checkpoint_shape(Config config, const std::filesystem::path& checkpoint);

/// Loads the model. Throws a usage Error where a tensor does not fit; nothing is changed then.
void read_checkpoint_model(const std::filesystem::path& checkpoint, models::Model& model);

/// Loads model and optimizer. Throws a usage Error where a tensor does not fit; nothing is changed
/// in the one that does not.
void read_checkpoint_tensors(const std::filesystem::path& checkpoint, models::Model& model,
                             optim::Optimizer& optimizer);

/// What several ranks need besides; nothing where there was none.
StoredTensors read_checkpoint_ranks(const std::filesystem::path& checkpoint);

/// Whether every file is there with the length it was written with.
bool checkpoint_is_whole(const std::filesystem::path& checkpoint);

struct PruneOptions {
  std::int64_t newest = 0;  ///< the step just written; later ones belong to an attempt given up
  std::int64_t keep = 2;    ///< so many of the newest stay
  std::optional<std::int64_t> best;  ///< stays besides
};
/// Removes the other checkpoints, and what a killed process left half-written.
void prune_checkpoints(const RunDirectory& run, const PruneOptions& options);

}  // namespace accrue::train
