#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "accrue/accum/gradient_buffer.h"
#include "memory/recovery.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/ranks/parallelism.h"
#include "train/run/batch_control.h"
#include "train/run/cadence.h"
#include "train/run/progress.h"
#include "train/run/run_context.h"

namespace accrue::train {

/// Writes a run's checkpoints, during the training if that is possible, and goes back to the last
/// one.
class Checkpointer {
 public:
  /// All arguments are kept by reference.
  Checkpointer(const RunContext& run, Progress& progress, const memory::Recovery& recovery,
               const accum::GradientBuffer& buffer, Parallelism& parallelism, RunLog& log,
               const BatchControl& batch);

  /// Writes a checkpoint if the config requires it; `last` is set after the last step.
  void write_if_due(bool last);
  /// Writes a checkpoint if one is due while all ranks wait and are synchronized anyway.
  void write_while_waiting();
  /// Makes the next write_if_due() write one, since another rank was given notice.
  void ask() { is_asked_ = true; }
  /// Whether a checkpoint is due in the middle of a window that has taken so many seconds: on
  /// notice, or if the window takes longer than the time between two checkpoints, by the first
  /// rank's clock.
  bool due_in_window(double seconds) const;
  /// Writes a checkpoint in the middle of a window, and returns when it is on the disk: the sums
  /// are read in place, and the window continues to add to them. If the disk has no room for it an
  /// event reports that, and the last checkpoint stays as it is. If nothing of the window is done,
  /// it equals the checkpoint of the last step.
  void write_in_window(StartedWindow started);
  /// Writes a checkpoint, with all ranks together; the next step waits for it (finish).
  void write();
  /// Writes the present state, unless it is the newest checkpoint already, and waits until
  /// everything is on the disk.
  void write_last();
  const Stopwatch& since_checkpoint() const { return cadence_.since(); }
  void count_from(const Stopwatch& since_checkpoint) { cadence_.count_from(since_checkpoint); }
  /// The run's state, with everything that is kept elsewhere during training.
  const TrainState& present_state();
  /// Returns when the pending write is complete. Throws its error, if it failed.
  void finish();
  /// After an error, saves what was done since the last checkpoint if the parameters are those of
  /// the last step (`is_whole`). Throws nothing. Returns the ModelNotFinite that prevented it,
  /// since that is the cause of the error; else null.
  std::exception_ptr save_after_error(bool is_whole) noexcept;

  /// Goes back to the last checkpoint: what was folded into the optimizer's state cannot be removed
  /// from it.
  void go_back(const std::string& reason);
  /// Seconds that training waited for checkpoints since the last call, at first since construction;
  /// none if it did not wait.
  std::optional<double> take_seconds();
  /// The step from which a resumption begins, for a process that lost a rank.
  std::string saved_state_text() const;

 private:
  bool is_due() const;
  bool any_rank_asks(bool mine) const;
  void begin_writing(NamedParameters of_ranks);
  CheckpointContent present_content(const std::optional<StartedWindow>& started);
  void write_in_background(CheckpointContent content);
  void write_last_step();
  void answered();
  void wait();
  void report_replica() const;
  std::string replica_text() const;

  const RunContext& run_;
  Progress& progress_;
  const memory::Recovery& recovery_;
  const accum::GradientBuffer& buffer_;
  Parallelism& parallelism_;
  RunLog& log_;
  Cadence cadence_;
  CheckpointWriter writer_;
  bool is_asked_ = false;
  bool writes_in_place_ = false;    ///< and an event reported it
  double seconds_ = 0;              ///< for take_seconds()
  std::int64_t written_step_ = -1;  ///< step of the newest checkpoint that this run wrote or began
};

/// The checkpoint together with the middle of the next window.
CheckpointContent with_middle(CheckpointContent content, const StartedWindow& started);

/// The need of a checkpoint and the free bytes of `folder`'s disk, if these are fewer; else empty.
std::string lack_of_room(const CheckpointContent& content, const std::filesystem::path& folder);

}  // namespace accrue::train
