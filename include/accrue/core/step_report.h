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

/// Bytes in tensors by what they are for. All but `reserved` add up to the step's peak.
struct MemoryByKind {
  std::int64_t parameters = 0;   ///< masters, copies of them in a lower precision, buffers
  std::int64_t gradients = 0;    ///< main gradients and what sums them
  std::int64_t optimizer = 0;    ///< the optimizer's state
  std::int64_t activations = 0;  ///< the rest of the peak: activations, temporaries, inputs
  std::int64_t packed = 0;       ///< weights in the layouts that products read
  std::int64_t reserved = 0;     ///< the most that was resident for tensors, free lists included
};

/// One optimizer step, as measured. A value that was not measured is absent, never 0.
/// Field names are those of metrics.jsonl (docs/design.md, section 5); docs/guide/metrics.md says
/// what to do where one looks wrong.
///
/// If there are several ranks, epoch, samples, tokens, weight, loss, losses, grad_norm, lr, lrs,
/// micro_batches, batch_samples, batch_tokens, tokens_per_second, quarantined and pipeline_bubble
/// count all of them together (where ranks step alone, dist.local_steps, those of a step are the
/// first one's). Everything else that is measured, times, bytes and joules, is the first rank's.
struct StepReport {
  std::int64_t step = 0;  ///< 1 after the first optimizer step
  std::optional<double> epoch;
  double time = 0;                     ///< Unix time, seconds
  double elapsed = 0;                  ///< seconds of this run, over all its resumptions
  std::int64_t samples = 0;            ///< cumulative
  std::optional<std::int64_t> tokens;  ///< cumulative, input tokens without padding
  double weight = 0;                   ///< terms in this step's loss
  std::optional<double> loss;          ///< mean over `weight`; absent when the weight was 0
  /// Each loss's own mean by its name, without its coefficient, if the model has several.
  std::map<std::string, double> losses = {};
  std::optional<double> grad_norm;  ///< of the mean gradient, before clipping
  std::optional<double> lr;
  /// Each group's learning rate by its name, if the optimizer has several groups.
  std::map<std::string, double> lrs = {};
  std::optional<std::int64_t> micro_batch;    ///< samples in the largest micro-batch
  std::int64_t micro_batches = 0;             ///< of all ranks
  std::optional<std::int64_t> batch_samples;  ///< of this step
  std::optional<std::int64_t> batch_tokens;
  double seconds = 0;
  /// How long the epoch took that ended with this step, with evaluations and checkpoints, over all
  /// resumptions. Absent in all other steps.
  std::optional<double> epoch_seconds;
  std::optional<double> tokens_per_second;
  std::optional<double> updates_per_hour;
  std::optional<double> accumulation_seconds;  ///< forward and backward of all micro-batches
  std::optional<MicroBatchSeconds> micro_batch_seconds;  ///< of this step's micro-batches
  std::optional<double> optimizer_seconds;
  std::optional<double> data_seconds;  ///< waiting for input, in `seconds`
  /// That training stood still for a checkpoint since the step before was reported: beginning one,
  /// and waiting until it is written. The latter is in `seconds`. Absent if there was none.
  std::optional<double> checkpoint_seconds;
  /// The model's arithmetic in accumulation_seconds, as a part of what the machine's fastest matrix
  /// products would have done in that time.
  std::optional<double> share_of_ceiling;
  std::optional<double> joules;                        ///< that the processors took in `seconds`
  std::optional<std::int64_t> peak_bytes;              ///< in tensors, during the whole step
  std::optional<std::int64_t> micro_batch_peak_bytes;  ///< in tensors, while a micro-batch ran
  std::optional<std::int64_t> budget_bytes;            ///< memory.budget
  std::optional<MemoryByKind> memory;                  ///< at the peak
  /// tr(Sigma) / |G|^2 in units of `weight`: the batch at which a gradient is as much noise as
  /// signal; smoothed over some fifty steps, with the ends of an interval that holds the truth 9
  /// times in 10. Absent where micro-batches show no noise (one a step), or no signal yet.
  std::optional<double> noise_scale, noise_scale_low, noise_scale_high;
  /// tr(Sigma) of one unit of weight, smoothed alike.
  std::optional<double> gradient_variance;
  /// The noise scale in the geometry that decides about the batch, where that is another one.
  std::optional<double> noise_scale_in_geometry;
  std::map<std::string, double> noise_scales = {};  ///< by block, where it is asked for
  std::int64_t quarantined = 0;                     ///< micro-batches taken out of this step
  std::int64_t retries = 0;
  std::int64_t world = 1;
  std::vector<std::int64_t> rank_samples;  ///< each rank's of this window, where ranks share it
  std::optional<double> reduce_seconds;    ///< from a reduction's first collective to its end
  std::optional<double> reduce_exposed_seconds;  ///< its part after the last micro-batch's backward
  std::optional<std::int64_t> wire_bytes;        ///< that this rank sent
  /// The part of all ranks' time in forward and backward in which they waited for other stages of
  /// a pipeline; and what (stages - 1) / (micro-batches + stages - 1) says of a balanced one.
  std::optional<double> pipeline_bubble, pipeline_bubble_formula;
  /// What losses in fp16 were multiplied with; of other precisions none.
  std::optional<double> loss_scale;
  /// "micro" where batch normalisation took the statistics of micro-batches and not of the batch.
  std::optional<std::string> batchnorm;
  /// The run's length as it is known now, if it is not what the run began with.
  std::optional<std::int64_t> total_steps;
  bool stepped = true;  ///< false: total weight 0 or a dropped window, nothing was changed
};

}  // namespace accrue
