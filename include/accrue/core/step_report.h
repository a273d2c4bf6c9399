#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace accrue {

/// Seconds of forward and backward of one micro-batch.
struct MicroBatchSeconds {
  double median = 0;
  double max = 0;
};

/// Bytes in tensors by use. All fields except `reserved` add up to the step's peak.
struct MemoryByKind {
  std::int64_t parameters = 0;   ///< master weights, their low-precision copies, buffers
  std::int64_t gradients = 0;    ///< main gradients and the buffers that sum them
  std::int64_t optimizer = 0;    ///< the state of the optimizer
  std::int64_t activations = 0;  ///< the rest of the peak: activations, temporaries, inputs
  std::int64_t packed = 0;       ///< weights in the layouts that matrix products read
  std::int64_t reserved = 0;     ///< the most that was resident for tensors, free lists included
};

/// Measurements of one optimizer step. A value that was not measured is absent, never 0. The fields
/// are named as in metrics.jsonl (docs/design.md, section 5). docs/guide/metrics.md lists what to
/// do when a value looks wrong.
///
/// With several ranks, epoch, samples, tokens, weight, loss, losses, grad_norm, lr, lrs,
/// micro_batches, batch_samples, batch_tokens, tokens_per_second, quarantined and pipeline_bubble
/// cover all ranks (when ranks step alone, dist.local_steps, the values of one step are those of
/// the first rank). All other measurements (times, bytes, joules) are the first rank's.
struct StepReport {
  std::int64_t step = 0;  ///< 1 after the first optimizer step
  std::optional<double> epoch;
  double time = 0;                     ///< Unix time, seconds
  double elapsed = 0;                  ///< seconds of this run, over all its resumptions
  std::int64_t samples = 0;            ///< cumulative
  std::optional<std::int64_t> tokens;  ///< cumulative, input tokens without padding
  double weight = 0;                   ///< number of terms in this step's loss
  std::optional<double> loss;          ///< mean over `weight`; absent if the weight was 0
  /// The mean of each loss by name, without its coefficient, if the model has several.
  std::map<std::string, double> losses = {};
  std::optional<double> grad_norm;  ///< of the mean gradient, before clipping
  std::optional<double> lr;
  /// The learning rate of each group by name, if the optimizer has several groups.
  std::map<std::string, double> lrs = {};
  std::optional<std::int64_t> micro_batch;    ///< samples in the largest micro-batch
  std::int64_t micro_batches = 0;             ///< over all ranks
  std::optional<std::int64_t> batch_samples;  ///< of this step
  std::optional<std::int64_t> batch_tokens;
  double seconds = 0;
  /// Seconds of the epoch that ended with this step, with evaluations and checkpoints, over all
  /// resumptions. Absent in all other steps.
  std::optional<double> epoch_seconds;
  std::optional<double> tokens_per_second;
  std::optional<double> updates_per_hour;
  std::optional<double> accumulation_seconds;  ///< forward and backward of all micro-batches
  std::optional<MicroBatchSeconds> micro_batch_seconds;  ///< of this step's micro-batches
  std::optional<double> optimizer_seconds;
  std::optional<double> data_seconds;  ///< waiting for input, included in `seconds`
  /// Seconds in which training stood still for checkpoints since the previous report: starting one,
  /// and waiting until it is written (only this part is in `seconds`). Absent if there was none.
  std::optional<double> checkpoint_seconds;
  /// The model's arithmetic during accumulation_seconds, as a fraction of what the machine's
  /// fastest matrix products would have done in that time.
  std::optional<double> share_of_ceiling;
  std::optional<double> joules;                        ///< used by the processors during `seconds`
  std::optional<std::int64_t> peak_bytes;              ///< in tensors, during the whole step
  std::optional<std::int64_t> micro_batch_peak_bytes;  ///< in tensors, while a micro-batch ran
  std::optional<std::int64_t> budget_bytes;            ///< memory.budget
  std::optional<MemoryByKind> memory;                  ///< at the peak
  /// With offloaded state (memory.offload): bytes that the process read from disks, and that were
  /// changed in the state and written, since the previous report. Absent if nothing is
  /// offloaded, or if the kernel does not count them (docs/guide/larger_than_memory.md).
  std::optional<std::int64_t> offload_read_bytes, offload_written_bytes;
  /// Seconds of this step in which state that was requested was not in memory yet, included in
  /// `seconds`.
  std::optional<double> offload_wait_seconds;
  /// The noise scale tr(Sigma) / |G|^2 in units of `weight`: the batch at which noise and signal of
  /// a gradient are equal. Smoothed over about fifty steps, with the limits of a 90 % interval.
  /// Absent if the noise cannot be measured (one micro-batch a step), or there is no signal yet.
  std::optional<double> noise_scale, noise_scale_low, noise_scale_high;
  /// tr(Sigma) of one unit of weight, smoothed in the same way.
  std::optional<double> gradient_variance;
  /// The noise scale in the geometry that decides about the batch, if it is a different one.
  std::optional<double> noise_scale_in_geometry;
  std::map<std::string, double> noise_scales = {};  ///< by block, if requested
  std::int64_t quarantined = 0;                     ///< micro-batches removed from this step
  std::int64_t retries = 0;
  std::int64_t world = 1;
  std::vector<std::int64_t> rank_samples;        ///< by rank, for this window, if ranks share it
  std::optional<double> reduce_seconds;          ///< from a reduction's first collective to its end
  std::optional<double> reduce_exposed_seconds;  ///< the part after the last micro-batch's backward
  std::optional<std::int64_t> wire_bytes;        ///< sent by this rank
  /// The fraction of all ranks' forward and backward time spent waiting for other pipeline stages,
  /// and the value of (stages - 1) / (micro-batches + stages - 1) for a balanced pipeline.
  std::optional<double> pipeline_bubble, pipeline_bubble_formula;
  /// The factor that losses in fp16 were multiplied by. Absent for other precisions.
  std::optional<double> loss_scale;
  /// "micro" if batch normalisation used statistics of micro-batches instead of the batch.
  std::optional<std::string> batchnorm;
  /// The current length of the run, if it differs from the length at its start.
  std::optional<std::int64_t> total_steps;
  bool stepped = true;  ///< false: total weight 0 or a dropped window, nothing was changed
};

}  // namespace accrue
