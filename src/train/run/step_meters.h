#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/core/step_report.h"
#include "accrue/memory/caching_allocator.h"
#include "core/energy_meter.h"
#include "data/loader.h"
#include "train/run/checkpointer.h"
#include "train/run/run_context.h"
#include "train/watch/ceiling_share.h"
#include "train/window/runner.h"

namespace accrue::train {

/// Bytes by kind: what stays as it is `now`, after a step, and the rest of that step's `peak`.
MemoryByKind memory_by_kind(const memory::Usage& now, const memory::Peak& peak);

/// What the steps of a run take of the machine, besides the times that their windows tell.
class StepMeters {
 public:
  /// `loader` and `checkpointer` are kept by reference.
  StepMeters(const RunContext& run, const data::Loader& loader, Checkpointer& checkpointer);

  /// To be called as a step begins.
  void begin();
  /// To be called when it is done: puts what was measured into its report. `peak` is that of the
  /// step, `samples` are this rank's own, `gradient_bytes` what the window's buffer takes.
  void report(const WindowRun& window, std::int64_t samples, const memory::Peak& peak,
              std::int64_t gradient_bytes, StepReport& report);
  /// Measures the machine's ceiling where that is due; returns what there is to tell of it. It
  /// takes no more memory than the step's activations did.
  std::optional<std::string> measure_ceiling_if_due(const StepReport& step);

 private:
  memory::Usage usage_by_tag(std::int64_t gradient_bytes) const;

  const data::Loader& loader_;
  Checkpointer& checkpointer_;
  EnergyMeter energy_;
  CeilingShare ceiling_;
  bool is_first_rank_;
  std::int64_t parameter_bytes_;
  const optim::Optimizer& optimizer_;
  double waited_before_ = 0;
};

}  // namespace accrue::train
