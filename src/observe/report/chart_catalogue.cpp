#include "observe/report/chart_catalogue.h"

namespace accrue::observe {
namespace {

std::vector<Chart> learning_charts() {
  return {
      {.id = "loss",
       .title = "Loss",
       .section = Section::learning,
       .smooth = true,
       .wide = true,
       .series = {{"loss", "training"}, {"eval_loss", "evaluation", Mark::points}}},
      {.id = "losses",
       .title = "Loss of each head",
       .section = Section::learning,
       .smooth = true,
       .series = {{"losses.*", ""}}},
      {.id = "eval_loss",
       .title = "Evaluation loss",
       .section = Section::learning,
       .series = {{"eval_loss", "evaluation", Mark::points}}},
      {.id = "eval_accuracy",
       .title = "Evaluation accuracy",
       .section = Section::learning,
       .unit = Unit::share,
       .series = {{"eval_accuracy", "evaluation", Mark::points}}},
      {.id = "lr",
       .title = "Learning rate",
       .section = Section::learning,
       .from_zero = true,
       .series = {{"lr", "learning rate"}, {"lrs.*", ""}}},
      {.id = "grad_norm",
       .title = "Gradient norm",
       .note = "Of the mean gradient, before clipping.",
       .section = Section::learning,
       .smooth = true,
       .from_zero = true,
       .series = {{"grad_norm", "norm"}}},
      {.id = "noise_scale",
       .title = "Gradient noise scale",
       .note = "The batch, in terms of the loss, whose gradient is as much noise as signal.",
       .section = Section::learning,
       .smooth = true,
       .from_zero = true,
       .series = {{"noise_scale", "noise scale"}}},
      {.id = "gradient_variance",
       .title = "Gradient variance",
       .section = Section::learning,
       .smooth = true,
       .from_zero = true,
       .series = {{"gradient_variance", "variance"}}},
  };
}

std::vector<Chart> batch_charts() {
  return {
      {.id = "batch_tokens",
       .title = "Batch",
       .note = "Tokens of one optimizer step, over all ranks.",
       .section = Section::batch,
       .unit = Unit::tokens,
       .drawing = Drawing::levels,
       .from_zero = true,
       .series = {{"batch_tokens", "batch"}}},
      {.id = "factors",
       .title = "The batch and its factors",
       .note = "Samples, and the micro-batches of all ranks together.",
       .section = Section::batch,
       .drawing = Drawing::levels,
       .from_zero = true,
       .series = {{"batch_samples", "samples"},
                  {"micro_batch", "samples in a micro-batch"},
                  {"micro_batches", "micro-batches"},
                  {"world", "ranks"}}},
      {.id = "trouble",
       .title = "Micro-batches run again or taken out",
       .section = Section::batch,
       .kept = Kept::highest,
       .from_zero = true,
       .series = {{"retries", "run again"}, {"quarantined", "quarantined"}}},
  };
}

std::vector<Chart> speed_charts() {
  return {
      {.id = "tokens_per_second",
       .title = "Tokens per second",
       .section = Section::speed,
       .unit = Unit::tokens_per_second,
       .smooth = true,
       .from_zero = true,
       .series = {{"tokens_per_second", "speed"}}},
      {.id = "samples_per_second",
       .title = "Samples per second",
       .section = Section::speed,
       .unit = Unit::samples_per_second,
       .smooth = true,
       .from_zero = true,
       .series = {{"samples_per_second", "speed"}}},
      {.id = "share_of_ceiling",
       .title = "Share of the machine's ceiling",
       .note = "Of the matrix products per second that the machine was measured to do at best.",
       .section = Section::speed,
       .unit = Unit::share,
       .smooth = true,
       .from_zero = true,
       .series = {{"share_of_ceiling", "share"}}},
      {.id = "time_parts",
       .title = "Where the time of a step goes",
       .note = "Means of the steps. What is hidden runs beside the backward pass.",
       .section = Section::speed,
       .unit = Unit::seconds,
       .drawing = Drawing::stack,
       .kept = Kept::mean,
       .from_zero = true,
       .wide = true,
       .series = {{"part.compute", "forward and backward", Mark::part},
                  {"part.reduce_hidden", "reduce, hidden", Mark::part},
                  {"part.reduce_exposed", "reduce, exposed", Mark::part},
                  {"part.optimizer", "optimizer", Mark::part},
                  {"part.data", "data", Mark::part},
                  {"part.checkpoint", "checkpoint", Mark::part},
                  {"part.rest", "rest", Mark::part}}},
      {.id = "seconds",
       .title = "Time of a step",
       .section = Section::speed,
       .unit = Unit::seconds,
       .smooth = true,
       .from_zero = true,
       .series = {{"seconds", "step"}}},
      {.id = "micro_batch_seconds",
       .title = "Time of a micro-batch",
       .section = Section::speed,
       .unit = Unit::seconds,
       .smooth = true,
       .from_zero = true,
       .series = {{"micro_batch_seconds.median", "median"},
                  {"micro_batch_seconds.max", "slowest"}}},
      {.id = "pipeline_bubble",
       .title = "Pipeline bubble",
       .note = "Part of all ranks' time that waits for other stages.",
       .section = Section::speed,
       .unit = Unit::share,
       .from_zero = true,
       .series = {{"pipeline_bubble", "measured"},
                  {"pipeline_bubble_formula", "of a balanced one", Mark::dashed}}},
      {.id = "wire_bytes",
       .title = "Sent to other ranks",
       .note = "By the first rank, per step.",
       .section = Section::speed,
       .unit = Unit::bytes,
       .from_zero = true,
       .series = {{"wire_bytes", "sent"}}},
      {.id = "epoch_seconds",
       .title = "Time of an epoch",
       .section = Section::speed,
       .unit = Unit::seconds,
       .from_zero = true,
       .series = {{"epoch_seconds", "epoch", Mark::points}}},
      {.id = "joules",
       .title = "Energy of a step",
       .section = Section::speed,
       .unit = Unit::joules,
       .smooth = true,
       .from_zero = true,
       .series = {{"joules", "energy"}}},
  };
}

std::vector<Chart> memory_charts() {
  return {
      {.id = "memory",
       .title = "Memory by kind",
       .note =
           "Tensors at the peak of a step. Reserved is what is held for them, free lists included.",
       .section = Section::memory,
       .unit = Unit::bytes,
       .drawing = Drawing::stack,
       .kept = Kept::highest,
       .from_zero = true,
       .series = {{"memory.parameters", "parameters", Mark::part},
                  {"memory.gradients", "gradients", Mark::part},
                  {"memory.optimizer", "optimizer", Mark::part},
                  {"memory.packed", "packed weights", Mark::part},
                  {"memory.activations", "activations", Mark::part},
                  {"memory.reserved", "reserved", Mark::line},
                  {"budget_bytes", "budget", Mark::dashed}}},
      {.id = "peak_bytes",
       .title = "Peak memory of tensors",
       .section = Section::memory,
       .unit = Unit::bytes,
       .kept = Kept::highest,
       .from_zero = true,
       .series = {{"peak_bytes", "step"},
                  {"micro_batch_peak_bytes", "micro-batch"},
                  {"budget_bytes", "budget", Mark::dashed}}},
  };
}

std::vector<Chart> joined(std::initializer_list<std::vector<Chart>> groups) {
  std::vector<Chart> all;
  for (const std::vector<Chart>& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace

const std::vector<Chart>& chart_catalogue() {
  static const std::vector<Chart> charts =
      joined({learning_charts(), batch_charts(), speed_charts(), memory_charts()});
  return charts;
}

const std::vector<std::string_view>& columns_without_chart() {
  static const std::vector<std::string_view> columns{"step",
                                                     "time",
                                                     "elapsed",
                                                     "epoch",
                                                     "samples",
                                                     "tokens",
                                                     "weight",
                                                     "updates_per_hour",
                                                     "accumulation_seconds",
                                                     "optimizer_seconds",
                                                     "reduce_seconds",
                                                     "reduce_exposed_seconds",
                                                     "data_seconds",
                                                     "checkpoint_seconds"};
  return columns;
}

}  // namespace accrue::observe
