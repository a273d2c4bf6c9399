#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "accrue/core/step_report.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/offload.h"
#include "core/energy_meter.h"
#include "data/loader.h"
#include "train/run/checkpointer.h"
#include "train/run/run_context.h"
#include "train/watch/ceiling_share.h"
#include "train/watch/slow_disk.h"
#include "train/window/runner.h"

namespace accrue::train {

/// Bytes by kind: what is held `now`, after a step, and the rest of that step's `peak`.
MemoryByKind memory_by_kind(const memory::Usage& now, const memory::Peak& peak);

/// The machine's resources that a run's steps use, besides the times that windows report.
class StepMeters {
 public:
  /// `loader` and `checkpointer` are kept by reference. If the state is offloaded, the rates of its
  /// disk are measured (memory::measure_disk_rates), of no more bytes than the state has.
  StepMeters(const RunContext& run, const data::Loader& loader, Checkpointer& checkpointer);

  /// Call it when a step begins.
  void begin();
  /// Call it when the step is done: adds the measurements to its report. `peak` is that of the
  /// step, `samples` are this rank's own, `gradient_bytes` the size of the window's buffer.
  void report(const WindowRun& window, std::int64_t samples, const memory::Peak& peak,
              std::int64_t gradient_bytes, StepReport& report);
  /// A remark on a disk of offloaded state that was far slower in the last step than before the
  /// first one (SlowDisk); none if it was not.
  std::optional<std::string> take_remark_on_disk() { return std::exchange(slow_disk_, {}); }
  /// Measures the machine's ceiling if that is due; returns a remark on it. It takes no more memory
  /// than the step's activations did.
  std::optional<std::string> measure_ceiling_if_due(const StepReport& step);

 private:
  memory::Usage usage_by_tag(std::int64_t gradient_bytes) const;
  void report_offloading(StepReport& report);

  const data::Loader& loader_;
  Checkpointer& checkpointer_;
  EnergyMeter energy_;
  CeilingShare ceiling_;
  bool is_first_rank_;
  std::int64_t parameter_bytes_;
  const optim::Optimizer& optimizer_;
  /// Of offloaded state whose disk could be measured. It comes before offload_reported_, so that
  /// the first report does not count the measurement.
  std::optional<SlowDisk> disk_;
  double waited_before_ = 0;
  memory::OffloadUsage offload_reported_ = memory::offload_usage();
  memory::OffloadUsage offload_at_begin_;
  std::optional<std::string> slow_disk_;
};

}  // namespace accrue::train
