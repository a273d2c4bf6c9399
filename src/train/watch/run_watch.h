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

/// Watches a run's steps for what is likely to be a mistake or a fault, and names the cause that it
/// suspects. It goes by what was measured alone, tells each trouble once until it is over, and
/// changes nothing.
class RunWatch {
 public:
  RunWatch(batch::Sampler sampler, InputKind input) : spikes_(std::move(sampler)), input_(input) {}

  /// To be told of each step, with its window's draws: what its loss, which all ranks know, tells.
  std::optional<Event> see_loss(const StepReport& step, batch::Range draws);
  /// To be told of each step: what its noise, which all ranks know, tells.
  std::optional<Event> see_noise(const StepReport& step);
  /// To be told of each step, with what the budget leaves to tensors: what this process's memory
  /// and input tell.
  std::vector<Event> see_machine(const StepReport& step, std::optional<std::int64_t> tensor_budget);

 private:
  LossSpikes spikes_;
  NoisyBatch noise_;
  MemoryPressure memory_;
  SlowInput input_;
};

}  // namespace accrue::train
