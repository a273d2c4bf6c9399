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

/// The prefix of what compression keeps among CheckpointContent::ranks.
inline constexpr const char* compression_prefix = "compression.";
/// The prefix of a rank's inner optimizer there; the first rank's is the checkpoint's optimizer.
std::string optimizer_prefix(std::int64_t rank);

/// What a checkpoint holds. Parameters and the optimizer's state are not copied: they must not
/// change until the checkpoint is written. What a forward pass changes (Trainable::buffers) is
/// copied.
struct CheckpointContent {
  TrainState state;
  ModelConfig shape;  ///< what the model was made with
  NamedParameters model, optimizer;
  /// What several ranks need besides, under prefixes and in memory of its own.
  NamedParameters ranks = {};
  /// StartedWindow::tensors, where `state` is in the middle of a window; each is read once, as it
  /// is written.
  StoredTensors window = {};
  /// Stands for `optimizer` if no process has all of its state; each tensor is read once, as it
  /// is written.
  StoredTensors gathered = {};
  /// What metrics.jsonl has to hold; none if the run keeps none.
  std::optional<observe::MetricsRecord> metrics = {};
};
CheckpointContent checkpoint_content(const TrainState& state, const ModelConfig& shape,
                                     const models::Model& model, const optim::Optimizer& optimizer);

/// A model with a NaN or an infinity, which no checkpoint keeps.
class ModelNotFinite : public Error {
 public:
  using Error::Error;
};

/// Writes checkpoints/step-N whole or not at all: a hidden folder, its manifest last, fsync,
/// rename. Throws ModelNotFinite, which names the tensor and the step, and a runtime Error if
/// the disk is full or not writable, or the run directory is gone; earlier checkpoints are
/// untouched then. So they are where `expect_held`, which is called before anything is written and
/// before the rename, throws. Any thread may call it.
std::filesystem::path write_checkpoint(const RunDirectory& run, const CheckpointContent& content,
                                       const std::function<void()>& expect_held = {});

/// Reads only the bookkeeping of a checkpoint. Throws a usage Error if that is not what was
/// written or no run can have it, or where a file is missing or of another length; tensors are not
/// read.
TrainState read_checkpoint_state(const std::filesystem::path& checkpoint);

/// The format of the data that a checkpoint's model was trained on: text, tokens, jsonl or images.
/// Throws as read_checkpoint_state() does.
std::string data_format_of(const std::filesystem::path& checkpoint);

/// Whether read_checkpoint_state() would not throw.
bool checkpoint_is_whole(const std::filesystem::path& checkpoint);

/// A checkpoint whose files are those that were written together.
class VerifiedCheckpoint {
 public:
  /// The files whose tensors are read: all, model.safetensors alone, none.
  enum class Files { all, model, none };

  /// Reads the files and compares their checksums, and the model's once more for numbers that are
  /// not finite. Throws a usage Error that names the file and the tensor that is not as it was
  /// written, or is not finite: earlier versions wrote such models, with which nothing goes on. A
  /// checkpoint of a version before there were checksums is compared by its lengths alone
  /// (`has_checksums`).
  explicit VerifiedCheckpoint(std::filesystem::path folder, Files files = Files::all);

  const std::filesystem::path& folder() const { return folder_; }
  const TrainState& state() const { return state_; }
  bool has_checksums() const { return has_checksums_; }
  /// CheckpointContent::metrics; none in checkpoints of earlier versions.
  const std::optional<observe::MetricsRecord>& metrics() const { return metrics_; }

  /// `config` with the shape of the checkpoint's model: what `model.from` once told.
  Config with_shape(Config config) const;

  std::filesystem::path model_path() const;
  /// The model's tensors, not read yet.
  StoredTensors model() const;
  /// Loads the model. Throws a usage Error if a tensor does not fit; nothing is changed then.
  void load(models::Model& model) const;
  /// Loads model and optimizer. Throws a usage Error if a tensor does not fit; nothing is
  /// changed in the one that does not.
  void load(models::Model& model, optim::Optimizer& optimizer) const;
  /// The optimizer's tensors, not read yet.
  StoredTensors optimizer() const;
  /// What several ranks need besides; nothing if there was none.
  StoredTensors ranks() const;
  /// StartedWindow::tensors, not read yet; nothing if the checkpoint is between two windows.
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
