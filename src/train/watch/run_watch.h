#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "accrue/core/observer.h"
#include "batch/sampler.h"
#include "batch/schedule.h"
#include "train/watch/loss_spikes.h"
#include "train/watch/memory_pressure.h"
#include "train/watch/noisy_batch.h"
#include "train/watch/slow_input.h"

namespace accrue::train {

/// Watches a run's steps for likely mistakes or faults, and names the suspected cause. It
/// uses only measurements, reports each problem once until it is over, and changes
/// nothing.
class RunWatch {
 public:
  RunWatch(batch::Sampler sampler, InputKind input) : spikes_(std::move(sampler)), input_(input) {}

  /// Call it with each step and its window's draws: judges the loss, which all ranks know.
  std::optional<Event> see_loss(const StepReport& step, batch::Range draws);
  /// Call it with each step: judges its noise, which all ranks know.
  std::optional<Event> see_noise(const StepReport& step);
  /// Call it with each step and the part of the budget for tensors: judges this process's memory
  /// and input.
  std::vector<Event> see_machine(const StepReport& step, std::optional<std::int64_t> tensor_budget);

 private:
  LossSpikes spikes_;
  NoisyBatch noise_;
  MemoryPressure memory_;
  SlowInput input_;
};

}  // namespace accrue::train
