#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accrue {

/// One optimizer step, as measured. A value that was not measured is absent, never 0.
/// Field names are those of metrics.jsonl (docs/design.md, section 5).
struct StepReport {
  std::int64_t step = 0;  ///< 1 after the first optimizer step
  std::optional<double> epoch;
  double time = 0;                     ///< Unix time, seconds
  double elapsed = 0;                  ///< seconds of this run, over all its resumptions
  std::int64_t samples = 0;            ///< cumulative
  std::optional<std::int64_t> tokens;  ///< cumulative, input tokens without padding
  double weight = 0;                   ///< terms in this step's loss
  std::optional<double> loss;          ///< mean over `weight`; absent when the weight was 0
  std::optional<double> grad_norm;     ///< of the mean gradient, before clipping
  std::optional<double> lr;
  std::optional<std::int64_t> micro_batch;  ///< samples in the largest micro-batch
  std::int64_t micro_batches = 0;
  std::optional<std::int64_t> batch_tokens;
  double seconds = 0;
  std::optional<double> tokens_per_second;
  std::optional<double> updates_per_hour;
  std::optional<double> accumulation_seconds;  ///< forward and backward of all micro-batches
  std::optional<double> optimizer_seconds;
  std::optional<std::int64_t> peak_bytes;              ///< in tensors, during the whole step
  std::optional<std::int64_t> micro_batch_peak_bytes;  ///< in tensors, while a micro-batch ran
  std::optional<std::int64_t> budget_bytes;            ///< that tensors may take together
  std::int64_t quarantined = 0;                        ///< micro-batches taken out of this step
  std::int64_t retries = 0;
  std::int64_t world = 1;
  std::vector<std::int64_t> rank_samples;  ///< each rank's of this window, where ranks share it
  std::optional<double> reduce_seconds;    ///< from a reduction's first collective to its end
  std::optional<double> reduce_exposed_seconds;  ///< its part after the last micro-batch's backward
  std::optional<std::int64_t> wire_bytes;        ///< that this rank sent
  /// The part of all ranks' time in forward and backward in which they waited for other stages of
  /// a pipeline; and what (stages - 1) / (micro-batches + stages - 1) says of a balanced one.
  std::optional<double> pipeline_bubble, pipeline_bubble_formula;
  /// "micro" where batch normalisation took the statistics of micro-batches and not of the batch.
  std::optional<std::string> batchnorm;
  bool stepped = true;  ///< false: total weight 0 or a dropped window, nothing was changed
};

}  // namespace accrue
