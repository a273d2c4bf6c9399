#pragma once

#include "accrue/core/step_report.h"

namespace accrue::observe::testing {

/// A step with all measurements.
inline StepReport full_step() {
  return {.step = 3,
          .epoch = 0.5,
          .time = 1000.25,
          .elapsed = 7.5,
          .samples = 96,
          .tokens = 6144,
          .weight = 2048,
          .loss = 2.25,
          .losses = {{"tokens", 2}, {"boxes", 0.5}},
          .grad_norm = 0.1,
          .lr = 3e-4,
          .lrs = {{"decayed", 3e-4}, {"undecayed", 1e-4}},
          .micro_batch = 4,
          .micro_batches = 8,
          .batch_samples = 32,
          .batch_tokens = 2048,
          .seconds = 2.5,
          .epoch_seconds = 60.5,
          .tokens_per_second = 819.2,
          .updates_per_hour = 1440,
          .accumulation_seconds = 2.25,
          .micro_batch_seconds = MicroBatchSeconds{.median = 0.25, .max = 0.5},
          .optimizer_seconds = 0.125,
          .data_seconds = 0.0625,
          .checkpoint_seconds = 0.03125,
          .share_of_ceiling = 0.75,
          .joules = 40.5,
          .peak_bytes = 1 << 30,
          .micro_batch_peak_bytes = 1 << 29,
          .budget_bytes = 3 << 29,
          .memory = MemoryByKind{.parameters = 1,
                                 .gradients = 2,
                                 .optimizer = 3,
                                 .activations = 4,
                                 .packed = 5,
                                 .reserved = 16},
          .noise_scale = 5000,
          .noise_scale_low = 3000,
          .noise_scale_high = 8000,
          .gradient_variance = 40,
          .noise_scale_in_geometry = 9000,
          .noise_scales = {{"h.0", 4000}, {"h.1", 6000}},
          .quarantined = 1,
          .retries = 2,
          .world = 1,
          .reduce_seconds = 0.5,
          .reduce_exposed_seconds = 0.25,
          .wire_bytes = 4096,
          .pipeline_bubble = 0.125,
          .pipeline_bubble_formula = 0.25,
          .loss_scale = 1024,
          .batchnorm = "micro"};
}

}  // namespace accrue::observe::testing
