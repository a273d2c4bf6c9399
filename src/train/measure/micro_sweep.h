#pragma once

#include <cstdint>
#include <vector>

#include "train/measure/benchmark.h"

namespace accrue::train {

/// One batch, split into micro-batches of one size.
struct SweptSize {
  std::int64_t micro_batch = 0;
  std::int64_t micro_batches = 0;
  bool fits = true;                ///< false: memory ran out, and the rest is 0
  Spread seconds;                  ///< whole steps, optimizer included
  double relative_seconds = 0;     ///< median over rounds of seconds / those of the first that fits
  std::int64_t peak_bytes = 0;     ///< in tensors
  double relative_peak_bytes = 0;  ///< relative to the first that fits
};

struct MicroSweep {
  bool images = false;
  std::int64_t batch_samples = 0;
  std::vector<SweptSize> sizes;  ///< the whole batch in one pass first, then by halves down to 1
};

/// Measures the cost of the split: the config's batch in one pass, as two, four, ... and as single
/// samples, in turn within each round, with the config's recomputation. Without memory.budget the
/// machine's free memory is the budget: so a size that does not fit is reported, not killed.
MicroSweep sweep_micro(const Config& config, const BenchmarkOptions& options = {});

}  // namespace accrue::train
