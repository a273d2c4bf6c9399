#pragma once

#include <optional>

#include "accrue/core/observer.h"
#include "memory/recovery.h"
#include "train/ranks/parallelism.h"
#include "train/run/batch_control.h"
#include "train/run/cadence.h"
#include "train/run/checkpointer.h"
#include "train/run/progress.h"
#include "train/run/run_context.h"

namespace accrue::train {

/// Evaluates a run's model when it is due, and records the best evaluation.
class Evaluator {
 public:
  /// All arguments are kept by reference. `shards` is null if each rank has all parameters.
  Evaluator(const RunContext& run, Progress& progress, const memory::Recovery& recovery,
            const Parallelism& parallelism, distributed::ParameterShards* shards,
            Checkpointer& checkpointer, RunLog& log, RunControl& control,
            const BatchControl& batch);

  /// `last` is set after the last step. Returns false if it was interrupted; the evaluation is then
  /// still due.
  bool evaluate_if_due(bool last);

 private:
  bool is_to_stop() const;
  std::optional<Evaluation> evaluate();
  std::int64_t samples_together() const;
  void take(const Evaluation& evaluation);
  void note_best(double eval_loss);

  const RunContext& run_;
  Progress& progress_;
  const memory::Recovery& recovery_;
  const Parallelism& parallelism_;
  distributed::ParameterShards* shards_;
  Checkpointer& checkpointer_;
  RunLog& log_;
  RunControl& control_;
  std::optional<Cadence> cadence_;
};

}  // namespace accrue::train
