#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "accrue/core/error.h"
#include "accrue/models/model.h"
#include "accrue/optim/optimizer.h"
#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"
#include "observe/metrics_account.h"
#include "train/checkpoint/train_state.h"

namespace accrue::train {

/// Prefix of the names in CheckpointContent::ranks under which compression keeps its state.
inline constexpr const char* compression_prefix = "compression.";
/// Prefix of a rank's inner optimizer there; rank 0's is CheckpointContent::optimizer.
std::string optimizer_prefix(std::int64_t rank);

/// The contents of a checkpoint. Parameters and the optimizer's state are not copied, so they must
/// not change until the checkpoint is written. The buffers that a forward pass changes
/// (Trainable::buffers) are copied.
struct CheckpointContent {
  TrainState state;
  ModelConfig shape;  ///< the model's configuration
  NamedParameters model, optimizer;
  /// Further state of a run on several ranks, by prefix. These tensors are copies.
  NamedParameters ranks = {};
  /// StartedWindow::tensors if `state` is in the middle of a window. Each tensor is read once, when
  /// it is written.
  StoredTensors window = {};
  /// Replaces `model` if no process has all of it, as `gathered` does `optimizer`. That its values
  /// are finite is the caller's to check.
  StoredTensors gathered_model = {};
  /// Replaces `optimizer` if no process has all of its state. Each tensor is read once, when it is
  /// written.
  StoredTensors gathered = {};
  /// The required contents of metrics.jsonl; none if the run keeps no metrics.
  std::optional<observe::MetricsRecord> metrics = {};
};
CheckpointContent checkpoint_content(const TrainState& state, const ModelConfig& shape,
                                     const models::Model& model, const optim::Optimizer& optimizer);

/// Thrown for a model with a NaN or an infinity: no checkpoint keeps one.
class ModelNotFinite : public Error {
 public:
  using Error::Error;
};

/// Writes checkpoints/step-N whole or not at all: a hidden folder, its manifest last, fsync,
/// rename. Throws ModelNotFinite, which names the tensor and the step, and a runtime Error if the
/// disk is full or not writable, or the run directory is gone. `expect_held` is called before
/// anything is written and again before the rename, and may throw. After any error earlier
/// checkpoints are untouched. May be called from any thread.
std::filesystem::path write_checkpoint(const RunDirectory& run, const CheckpointContent& content,
                                       const std::function<void()>& expect_held = {});

/// Reads only the bookkeeping of a checkpoint, no tensors. Throws a usage Error if the bookkeeping
/// is not as it was written or is impossible for a run, or if a file is missing or has another
/// length.
TrainState read_checkpoint_state(const std::filesystem::path& checkpoint);

/// The format of the data that a checkpoint's model was trained on: text, tokens, jsonl or images.
/// Throws as read_checkpoint_state() does.
std::string data_format_of(const std::filesystem::path& checkpoint);

/// Whether read_checkpoint_state() would not throw.
bool checkpoint_is_whole(const std::filesystem::path& checkpoint);

/// A checkpoint whose files were verified to be those that were written together.
class VerifiedCheckpoint {
 public:
  /// The files whose tensors are read: all, model.safetensors alone, none.
  enum class Files { all, model, none };

  /// Reads the files and compares their checksums, and checks the model for values that are not
  /// finite. Throws a usage Error that names the file and the tensor that differs from what was
  /// written or is not finite: earlier versions wrote such models, and no run can continue from
  /// one. For a checkpoint from before there were checksums only the lengths are compared
  /// (`has_checksums`).
  explicit VerifiedCheckpoint(std::filesystem::path folder, Files files = Files::all);

  const std::filesystem::path& folder() const { return folder_; }
  const TrainState& state() const { return state_; }
  bool has_checksums() const { return has_checksums_; }
  /// CheckpointContent::metrics; none in checkpoints of earlier versions.
  const std::optional<observe::MetricsRecord>& metrics() const { return metrics_; }

  /// `config` with the shape of the checkpoint's model, which `model.from` supplied at the start.
  Config with_shape(Config config) const;

  std::filesystem::path model_path() const;
  /// The model's tensors; they are read when they are used.
  StoredTensors model() const;
  /// Loads the model. Throws a usage Error if a tensor does not fit, and then changes nothing.
  void load(models::Model& model) const;
  /// Loads model and optimizer. Throws a usage Error if a tensor does not fit; the one that it does
  /// not fit is then unchanged.
  void load(models::Model& model, optim::Optimizer& optimizer) const;
  /// The optimizer's tensors; they are read when they are used.
  StoredTensors optimizer() const;
  /// Further state of a run on several ranks; empty if there was none.
  StoredTensors ranks() const;
  /// StartedWindow::tensors, read when used; empty if the checkpoint is between two windows.
  StoredTensors window() const;

 private:
  std::filesystem::path folder_;
  TrainState state_;
  ModelConfig shape_;
  std::optional<observe::MetricsRecord> metrics_;
  bool has_checksums_ = false;
  bool has_ranks_ = false, has_window_ = false;
};

}  // namespace accrue::train
