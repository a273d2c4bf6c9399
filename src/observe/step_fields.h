#pragma once

namespace accrue::observe {

/// Calls visit(name, field) for each field of a StepReport in a line of metrics.jsonl, in the
/// line's order: for writers and readers of lines.
template <class Report, class Visit>
void visit_fields(Report& report, const Visit& visit) {
  visit("step", report.step);
  visit("epoch", report.epoch);
  visit("time", report.time);
  visit("elapsed", report.elapsed);
  visit("samples", report.samples);
  visit("tokens", report.tokens);
  visit("weight", report.weight);
  visit("loss", report.loss);
  visit("losses", report.losses);
  visit("grad_norm", report.grad_norm);
  visit("lr", report.lr);
  visit("lrs", report.lrs);
  visit("micro_batch", report.micro_batch);
  visit("micro_batches", report.micro_batches);
  visit("batch_samples", report.batch_samples);
  visit("batch_tokens", report.batch_tokens);
  visit("seconds", report.seconds);
  visit("epoch_seconds", report.epoch_seconds);
  visit("tokens_per_second", report.tokens_per_second);
  visit("updates_per_hour", report.updates_per_hour);
  visit("accumulation_seconds", report.accumulation_seconds);
  visit("micro_batch_seconds", report.micro_batch_seconds);
  visit("optimizer_seconds", report.optimizer_seconds);
  visit("data_seconds", report.data_seconds);
  visit("checkpoint_seconds", report.checkpoint_seconds);
  visit("reduce_seconds", report.reduce_seconds);
  visit("reduce_exposed_seconds", report.reduce_exposed_seconds);
  visit("wire_bytes", report.wire_bytes);
  visit("pipeline_bubble", report.pipeline_bubble);
  visit("pipeline_bubble_formula", report.pipeline_bubble_formula);
  visit("share_of_ceiling", report.share_of_ceiling);
  visit("joules", report.joules);
  visit("peak_bytes", report.peak_bytes);
  visit("budget_bytes", report.budget_bytes);
  visit("micro_batch_peak_bytes", report.micro_batch_peak_bytes);
  visit("memory", report.memory);
  visit("offload_read_bytes", report.offload_read_bytes);
  visit("offload_written_bytes", report.offload_written_bytes);
  visit("offload_wait_seconds", report.offload_wait_seconds);
  visit("noise_scale", report.noise_scale);
  visit("noise_scale_low", report.noise_scale_low);
  visit("noise_scale_high", report.noise_scale_high);
  visit("noise_scale_in_geometry", report.noise_scale_in_geometry);
  visit("noise_scales", report.noise_scales);
  visit("gradient_variance", report.gradient_variance);
  visit("quarantined", report.quarantined);
  visit("retries", report.retries);
  visit("loss_scale", report.loss_scale);
  visit("world", report.world);
  visit("batchnorm", report.batchnorm);
}

}  // namespace accrue::observe
