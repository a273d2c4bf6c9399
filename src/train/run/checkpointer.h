#pragma once

#include <cstdint>
#include <string>

#include "accrue/accum/gradient_buffer.h"
#include "memory/recovery.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/ranks/parallelism.h"
#include "train/run/cadence.h"
#include "train/run/progress.h"
#include "train/run/run_context.h"

namespace accrue::train {

/// Writes a run's checkpoints, beside the training where that is possible, and goes back to the
/// last one.
class Checkpointer {
 public:
  /// All are kept by reference.
  Checkpointer(const RunContext& run, Progress& progress, const memory::Recovery& recovery,
               const accum::GradientBuffer& buffer, Parallelism& parallelism, RunLog& log);

  /// Where the config says so; `last`: after the last step.
  void write_if_due(bool last);
  /// Of all ranks, together; the next step waits for it (finish).
  void write();
  /// The state of now, unless it is the newest checkpoint already; and all is on the disk.
  void write_last();
  /// Returns when what was begun is written. Throws what went wrong with it.
  void finish();
  /// After an error, where the parameters are those of the last step (`is_whole`): keeps what was
  /// done since the last checkpoint. Throws nothing.
  void save_what_was_done(bool is_whole) noexcept;

  /// The run goes on from the last checkpoint: what was folded into the optimizer's state cannot be
  /// taken out again.
  void go_back(const std::string& reason);
  /// For who lost a rank: where a resumption begins.
  std::string what_is_saved() const;

 private:
  void begin_writing(NamedParameters of_ranks);

  const RunContext& run_;
  Progress& progress_;
  const memory::Recovery& recovery_;
  const accum::GradientBuffer& buffer_;
  Parallelism& parallelism_;
  RunLog& log_;
  Cadence cadence_;
  CheckpointWriter writer_;
  std::int64_t written_step_ = -1;  ///< of the newest checkpoint written (or begun) by this run
};

}  // namespace accrue::train
