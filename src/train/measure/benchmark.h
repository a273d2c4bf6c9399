#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/recompute.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// Centre and spread of repeated measurements.
struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
};
Spread spread_of(std::vector<double> values);

struct BenchmarkOptions {
  std::int64_t rounds =
      5;  ///< rounds of an accumulated window, as many bare micro-batches, the GEMM ceiling
};

/// The results that `accrue bench` prints. "Bare" is the same kernels' forward and backward into
/// reused scratch memory, keeping nothing: the baseline for accumulation. All measurements are
/// taken in turn in one process.
struct BenchmarkResult {
  std::int64_t parameters = 0;
  Recompute recompute = Recompute::none;
  std::int64_t micro_batch = 0;
  std::int64_t micro_batches = 0;
  std::int64_t micro_batch_tokens = 0;
  bool images = false;       ///< whether "tokens" are images
  Spread tokens_per_second;  ///< of whole steps, optimizer included
  Spread bare_seconds_per_micro_batch;
  Spread seconds_per_micro_batch;    ///< accumulated, the optimizer step excluded
  double accumulation_overhead = 0;  ///< median over rounds of accumulated / bare - 1
  Spread optimizer_seconds;          ///< norm, clip and step
  std::int64_t peak_bytes = 0;       ///< in tensors, from the meter
  std::int64_t peak_resident_bytes = 0;
  /// The cost per micro-batch of an accumulated window that follows another: requests of the
  /// caching allocator to the system, and newly mapped pages.
  double system_allocations = 0;
  double minor_page_faults = 0;
  double loss = 0;  ///< of the last window: shows a run that diverges
  /// 6 N + attention per token, at the median speed; none for a model that does not report it
  /// (TorchScript).
  std::optional<double> model_gflops;
  double ceiling_gflops = 0;  ///< GEMM rate at the model's own shapes
  double peak_gflops = 0;     ///< GEMM rate at 2048 x 2048 x 2048
  std::optional<double> share_of_ceiling;
};

/// Trains the config's model on its data for a few windows without a run directory and measures.
/// Throws a usage Error as a run would.
BenchmarkResult benchmark(const Config& config, const BenchmarkOptions& options = {});

}  // namespace accrue::train
