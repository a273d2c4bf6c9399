#include "observe/step_from_line.h"

#include <nlohmann/json.hpp>

namespace accrue {

// nlohmann-json finds these by the name.
void from_json(const nlohmann::json& json, MicroBatchSeconds& seconds) {
  json.at("median").get_to(seconds.median);
  json.at("max").get_to(seconds.max);
}

void from_json(const nlohmann::json& json, MemoryByKind& memory) {
  json.at("parameters").get_to(memory.parameters);
  json.at("gradients").get_to(memory.gradients);
  json.at("optimizer").get_to(memory.optimizer);
  json.at("activations").get_to(memory.activations);
  json.at("packed").get_to(memory.packed);
  json.at("reserved").get_to(memory.reserved);
}

namespace observe {
namespace {

/// The values of a line by their names.
class Fields {
 public:
  explicit Fields(const nlohmann::json& line) : line_(line) {}

  template <class Value>
  void take(const char* name, Value& value) const {
    if (const auto found = line_.find(name); found != line_.end()) found->get_to(value);
  }
  template <class Value>
  void take(const char* name, std::optional<Value>& value) const {
    if (const auto found = line_.find(name); found != line_.end()) value = found->get<Value>();
  }

 private:
  const nlohmann::json& line_;
};

StepReport report_of(const nlohmann::json& line) {
  StepReport report{.step = line.at("step").get<std::int64_t>(), .lr = line.at("lr").get<double>()};
  const Fields fields(line);
  fields.take("epoch", report.epoch);
  fields.take("time", report.time);
  fields.take("elapsed", report.elapsed);
  fields.take("samples", report.samples);
  fields.take("tokens", report.tokens);
  fields.take("weight", report.weight);
  fields.take("loss", report.loss);
  fields.take("losses", report.losses);
  fields.take("grad_norm", report.grad_norm);
  fields.take("lrs", report.lrs);
  fields.take("micro_batch", report.micro_batch);
  fields.take("micro_batches", report.micro_batches);
  fields.take("batch_samples", report.batch_samples);
  fields.take("batch_tokens", report.batch_tokens);
  fields.take("seconds", report.seconds);
  fields.take("epoch_seconds", report.epoch_seconds);
  fields.take("tokens_per_second", report.tokens_per_second);
  fields.take("updates_per_hour", report.updates_per_hour);
  fields.take("accumulation_seconds", report.accumulation_seconds);
  fields.take("micro_batch_seconds", report.micro_batch_seconds);
  fields.take("optimizer_seconds", report.optimizer_seconds);
  fields.take("data_seconds", report.data_seconds);
  fields.take("checkpoint_seconds", report.checkpoint_seconds);
  fields.take("reduce_seconds", report.reduce_seconds);
  fields.take("reduce_exposed_seconds", report.reduce_exposed_seconds);
  fields.take("wire_bytes", report.wire_bytes);
  fields.take("pipeline_bubble", report.pipeline_bubble);
  fields.take("pipeline_bubble_formula", report.pipeline_bubble_formula);
  fields.take("share_of_ceiling", report.share_of_ceiling);
  fields.take("joules", report.joules);
  fields.take("peak_bytes", report.peak_bytes);
  fields.take("budget_bytes", report.budget_bytes);
  fields.take("micro_batch_peak_bytes", report.micro_batch_peak_bytes);
  fields.take("memory", report.memory);
  fields.take("noise_scale", report.noise_scale);
  fields.take("noise_scale_low", report.noise_scale_low);
  fields.take("noise_scale_high", report.noise_scale_high);
  fields.take("noise_scale_in_geometry", report.noise_scale_in_geometry);
  fields.take("noise_scales", report.noise_scales);
  fields.take("gradient_variance", report.gradient_variance);
  fields.take("quarantined", report.quarantined);
  fields.take("retries", report.retries);
  fields.take("loss_scale", report.loss_scale);
  fields.take("world", report.world);
  fields.take("batchnorm", report.batchnorm);
  return report;
}

}  // namespace

std::optional<StepReport> step_from_line(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  try {
    return report_of(json);
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace observe
}  // namespace accrue
