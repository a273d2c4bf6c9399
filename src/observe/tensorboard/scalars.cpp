#include "observe/tensorboard/scalars.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace accrue::observe {
namespace {

void put(std::vector<Scalar>& scalars, std::string tag, double value) {
  const bool is_a_float = std::abs(value) <= std::numeric_limits<float>::max();  // NaN is not
  if (is_a_float) scalars.push_back({std::move(tag), static_cast<float>(value)});
}

void put(std::vector<Scalar>& scalars, std::string tag, std::int64_t value) {
  put(scalars, std::move(tag), static_cast<double>(value));
}

template <typename T>
void put(std::vector<Scalar>& scalars, std::string tag, const std::optional<T>& value) {
  if (value) put(scalars, std::move(tag), *value);
}

/// Puts each value below `tag`, under its name.
void put(std::vector<Scalar>& scalars, const std::string& tag,
         const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) put(scalars, tag + "/" + name, value);
}

void put(std::vector<Scalar>& scalars, const MemoryByKind& memory) {
  put(scalars, "memory/parameters", memory.parameters);
  put(scalars, "memory/gradients", memory.gradients);
  put(scalars, "memory/optimizer", memory.optimizer);
  put(scalars, "memory/activations", memory.activations);
  put(scalars, "memory/packed", memory.packed);
  put(scalars, "memory/reserved", memory.reserved);
}

}  // namespace

std::vector<Scalar> scalars_of(const StepReport& report) {
  std::vector<Scalar> scalars;
  put(scalars, "train/loss", report.loss);
  put(scalars, "train/loss", report.losses);
  put(scalars, "train/grad_norm", report.grad_norm);
  put(scalars, "train/noise_scale", report.noise_scale);
  put(scalars, "train/noise_scale_low", report.noise_scale_low);
  put(scalars, "train/noise_scale_high", report.noise_scale_high);
  put(scalars, "train/noise_scale_in_geometry", report.noise_scale_in_geometry);
  put(scalars, "train/noise_scale", report.noise_scales);
  put(scalars, "train/gradient_variance", report.gradient_variance);
  put(scalars, "train/lr", report.lr);
  put(scalars, "train/lr", report.lrs);
  put(scalars, "train/tokens_per_second", report.tokens_per_second);
  put(scalars, "train/updates_per_hour", report.updates_per_hour);
  put(scalars, "train/epoch", report.epoch);
  put(scalars, "train/samples", report.samples);
  put(scalars, "train/tokens", report.tokens);
  put(scalars, "train/weight", report.weight);
  put(scalars, "train/batch_samples", report.batch_samples);
  put(scalars, "train/batch_tokens", report.batch_tokens);
  put(scalars, "train/micro_batch", report.micro_batch);
  put(scalars, "train/micro_batches", report.micro_batches);
  put(scalars, "train/world", report.world);
  put(scalars, "train/quarantined", report.quarantined);
  put(scalars, "train/retries", report.retries);
  put(scalars, "train/loss_scale", report.loss_scale);
  put(scalars, "time/elapsed", report.elapsed);
  put(scalars, "time/step", report.seconds);
  put(scalars, "time/accumulation", report.accumulation_seconds);
  if (report.micro_batch_seconds) {
    put(scalars, "time/micro_batch_median", report.micro_batch_seconds->median);
    put(scalars, "time/micro_batch_max", report.micro_batch_seconds->max);
  }
  put(scalars, "time/optimizer", report.optimizer_seconds);
  put(scalars, "time/data", report.data_seconds);
  put(scalars, "time/checkpoint", report.checkpoint_seconds);
  put(scalars, "time/epoch", report.epoch_seconds);
  put(scalars, "time/reduce", report.reduce_seconds);
  put(scalars, "time/reduce_exposed", report.reduce_exposed_seconds);
  put(scalars, "ranks/wire_bytes", report.wire_bytes);
  put(scalars, "ranks/pipeline_bubble", report.pipeline_bubble);
  put(scalars, "ranks/pipeline_bubble_formula", report.pipeline_bubble_formula);
  put(scalars, "machine/share_of_ceiling", report.share_of_ceiling);
  put(scalars, "machine/joules", report.joules);
  put(scalars, "memory/peak", report.peak_bytes);
  put(scalars, "memory/budget", report.budget_bytes);
  put(scalars, "memory/micro_batch_peak", report.micro_batch_peak_bytes);
  if (report.memory) put(scalars, *report.memory);
  put(scalars, "offload/read", report.offload_read_bytes);
  put(scalars, "offload/written", report.offload_written_bytes);
  put(scalars, "offload/wait", report.offload_wait_seconds);
  return scalars;
}

std::vector<Scalar> scalars_of(const Evaluation& evaluation) {
  std::vector<Scalar> scalars;
  put(scalars, "eval/loss", evaluation.loss);
  put(scalars, "eval/accuracy", evaluation.accuracy);
  put(scalars, "eval/loss", evaluation.losses);
  put(scalars, "eval/weight", evaluation.weight);
  put(scalars, "time/eval", evaluation.seconds);
  return scalars;
}

}  // namespace accrue::observe
