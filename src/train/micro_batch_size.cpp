#include "micro_batch_size.h"

#include <algorithm>
#include <bit>

#include "accrue/accum/window.h"
#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/train/forward_backward.h"

namespace accrue::train {
namespace {

/// Most bytes that were live during `run` beyond those before it.
template <class Run>
std::int64_t peak_increase(Run&& run) {
  memory::reset_peak();
  const std::int64_t before = memory::usage().live;
  run();
  return memory::usage().peak - before;
}

}  // namespace

MicroDecision decide_micro_batch(const MicroTrial& trial) {
  const std::int64_t budget = trial.available_bytes / 4;
  const std::int64_t fitting =
      trial.bytes_per_sample > 0 ? budget / trial.bytes_per_sample : trial.window_samples;
  const auto limit =
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(fitting, 1, trial.window_samples));
  MicroDecision decision{.samples = static_cast<std::int64_t>(std::bit_floor(limit)), .reason = {}};
  decision.reason = "one sample took " + format_bytes(trial.bytes_per_sample) + "; " +
                    std::to_string(decision.samples) +
                    " is the largest power of two that fits in a quarter of the " +
                    format_bytes(trial.available_bytes) + " free, in a batch of " +
                    std::to_string(trial.window_samples);
  return decision;
}

MicroTrial measure_micro_batch(models::Trainable& model,
                               std::shared_ptr<accum::GradientBuffer> buffer,
                               const batch::MicroBatch& one_sample, std::int64_t window_samples) {
  accum::Window window(std::move(buffer));
  const ForwardContext context = batch::training_context(one_sample, 0, 0);
  const PassOptions options{.factors = std::vector<double>(model.losses().size(), 1.0)};
  const auto trial = [&] {
    window.open(0);
    window.begin({.index = 0, .sample_ids = one_sample.sample_ids});
    forward_backward(model, one_sample, context, options);
    window.discard();
  };
  trial();  // Low-precision copies and the kernels' workspaces are made once, not per micro-batch.
  return {.bytes_per_sample = peak_increase(trial),
          .available_bytes = memory::available_bytes(),
          .window_samples = window_samples};
}

}  // namespace accrue::train
