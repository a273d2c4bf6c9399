#include "train/run/step_meters.h"

#include <algorithm>

#include "accrue/core/error.h"
#include "core/median.h"
#include "memory/disk_rates.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

/// The memory for the ceiling's largest product, if memory is not metered.
constexpr std::int64_t room_without_a_meter = std::int64_t{256} << 20;

/// The arithmetic for this rank's samples; not known if it runs a part of the model, or samples
/// have unequal lengths.
CeilingShare::Model arithmetic_of(const RunContext& run) {
  const Workload& work = run.work;
  const data::Source& train = *work.data.train;
  const bool is_even = train.image_shape().has_value() || train.uniform_tokens().has_value();
  // The ceiling that is measured during a run is the processor's.
  const bool is_known = work.config.dist.stages == 1 && is_even && device_of(*work.model).is_cpu();
  return {.flops_per_sample = is_known ? work.model->flops_per_sample() : 0,
          .compute = work.config.precision.compute};
}

/// None without offloaded state, and if its disk has no room for a measurement.
std::optional<SlowDisk> watch_disk(const std::string& folder) {
  if (!memory::is_offloading()) return std::nullopt;
  memory::leave_memory();  // what is left to be written would slow the measurement
  try {
    return SlowDisk(folder, memory::measure_disk_rates(folder, memory::offload_usage().state));
  } catch (const Error&) {
    return std::nullopt;
  }
}

memory::Transfers since(const memory::Transfers& before, const memory::Transfers& now) {
  return {.bytes = now.bytes - before.bytes, .seconds = now.seconds - before.seconds};
}

}  // namespace

MemoryByKind memory_by_kind(const memory::Usage& now, const memory::Peak& peak) {
  MemoryByKind bytes{.parameters = now.live_as(MemoryTag::parameters),
                     .gradients = now.live_as(MemoryTag::gradients),
                     .optimizer = now.live_as(MemoryTag::optimizer),
                     .packed = now.live_as(MemoryTag::packed),
                     .reserved = peak.reserved};
  bytes.activations = std::max<std::int64_t>(
      0, peak.live - bytes.parameters - bytes.gradients - bytes.optimizer - bytes.packed);
  return bytes;
}

StepMeters::StepMeters(const RunContext& run, const data::Loader& loader,
                       Checkpointer& checkpointer)
    : loader_(loader),
      checkpointer_(checkpointer),
      ceiling_(arithmetic_of(run), CeilingCache(ceiling_cache_file())),
      is_first_rank_(run.ranks.is_first()),
      parameter_bytes_(bytes_of(*run.work.model)),
      optimizer_(run.optimizer),
      disk_(watch_disk(run.work.config.memory.offload)) {}

void StepMeters::begin() {
  waited_before_ = loader_.waited_seconds();
  offload_at_begin_ = memory::offload_usage();
  energy_.restart();
}

void StepMeters::report(const WindowRun& window, std::int64_t samples, const memory::Peak& peak,
                        std::int64_t gradient_bytes, StepReport& report) {
  report.joules = energy_.joules();
  report.data_seconds = loader_.waited_seconds() - waited_before_;
  report.checkpoint_seconds = checkpointer_.take_seconds();
  report.share_of_ceiling = ceiling_.of(samples, window.own_seconds);
  if (const std::vector<double>& seconds = window.micro_batch_seconds; !seconds.empty())
    report.micro_batch_seconds =
        MicroBatchSeconds{.median = median_of(seconds), .max = std::ranges::max(seconds)};
  report_offloading(report);
  if (!memory::counts_allocations()) return;
  report.peak_bytes = peak.live;
  report.memory = memory_by_kind(usage_by_tag(gradient_bytes), peak);
}

/// Bytes count from one report to the next, with those of evaluations and checkpoints in between;
/// waiting counts within the step, like its other times.
void StepMeters::report_offloading(StepReport& report) {
  if (!memory::is_offloading()) return;
  const memory::OffloadUsage usage = memory::offload_usage();
  if (usage.read) report.offload_read_bytes = *usage.read - offload_reported_.read.value_or(0);
  if (usage.written)
    report.offload_written_bytes = *usage.written - offload_reported_.written.value_or(0);
  report.offload_wait_seconds = usage.wait_seconds - offload_at_begin_.wait_seconds;
  if (disk_)
    slow_disk_ = disk_->observe(since(offload_at_begin_.reading, usage.reading),
                                since(offload_at_begin_.writing, usage.writing));
  offload_reported_ = usage;
}

/// libtorch's allocator of a device has no tags: there, tensors kept between steps are counted.
memory::Usage StepMeters::usage_by_tag(std::int64_t gradient_bytes) const {
  memory::Usage now = memory::usage();
  if (!memory::device_room()) return now;
  const auto kind = [&](MemoryTag tag) -> std::int64_t& {
    return now.live_by_tag[static_cast<std::size_t>(tag)];
  };
  kind(MemoryTag::parameters) = parameter_bytes_;
  kind(MemoryTag::gradients) = gradient_bytes;
  kind(MemoryTag::optimizer) = optimizer_.state_bytes();
  return now;
}

std::optional<std::string> StepMeters::measure_ceiling_if_due(const StepReport& step) {
  if (!is_first_rank_) return std::nullopt;
  return ceiling_.measure_if_due(step.memory ? step.memory->activations : room_without_a_meter);
}

}  // namespace accrue::train
