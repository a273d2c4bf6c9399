#include "train/run/window_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/models/normalisation.h"
#include "accrue/optim/optimizer.h"
#include "core/checksum.h"
#include "core/words.h"
#include "train/config/gradient_folding.h"

namespace accrue::train {
namespace {

[[noreturn]] void refuse_exchange(const char* key, const std::string& expected,
                                  const std::string& received, const std::string& suggestion) {
  throw usage_error(std::string(key) + " of a process that exchanges sums", expected, received,
                    suggestion);
}

void expect_sums_that_add_up(const Config& config) {
  const accum::Accumulation kind = config.precision.accumulate;
  if (kind != accum::Accumulation::fp32 && kind != accum::Accumulation::fp64 &&
      kind != accum::Accumulation::fixed)
    refuse_exchange("precision.accumulate", "sums that add up element by element",
                    in_quotes(to_string(kind)),
                    R"(accumulate = "fixed", which has the bits of one process, or "fp32")");
  if (config.precision.compute == models::Compute::fp16)
    refuse_exchange("precision.compute", "\"fp32\" or \"bf16\"",
                    "\"fp16\", whose loss scale follows each process's own overflows",
                    "compute = \"bf16\"");
  if (folds_gradients(config))
    refuse_exchange("memory.gradients", "\"buffer\"", "gradients in the optimizer's state",
                    "gradients = \"buffer\", and another optimizer than adama");
}

std::string kind_in_words(const at::Tensor& tensor) {
  std::string sizes;
  for (const std::int64_t size : tensor.sizes())
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return std::string(at::toString(tensor.scalar_type())) + " [" + sizes + "]";
}

void expect_value_of(const NamedParameter& parameter, const NamedParameters& values) {
  constexpr const char* operation = "take parameters";
  constexpr const char* suggestion = "the parameters of a process with the same config";
  const auto value = std::ranges::find(values, parameter.name, &NamedParameter::name);
  const std::string expected = parameter.name + " as " + kind_in_words(parameter.tensor);
  if (value == values.end())
    throw usage_error(operation, expected, "none of that name", suggestion);
  if (value->tensor.sizes() != parameter.tensor.sizes() ||
      value->tensor.scalar_type() != parameter.tensor.scalar_type())
    throw usage_error(operation, expected, kind_in_words(value->tensor), suggestion);
  if (!at::isfinite(value->tensor).all().item<bool>())
    throw usage_error(operation, parameter.name + " with finite values", "one that is not finite",
                      "the parameters before the step that made it so");
}

}  // namespace

void expect_exchangeable_sums(const Workload& work) {
  const Config& config = work.config;
  expect_sums_that_add_up(config);
  if (config.adapt.is_on() || config.batch.changes_as_stated())
    refuse_exchange("batch", "a batch that stays as it is", "one that changes",
                    "adapt.batch = \"fixed\", without batch.schedule and batch.ramp_from");
  if (!config.memory.offload.empty())
    refuse_exchange("memory.offload", "parameters in memory", in_quotes(config.memory.offload),
                    "offload = \"none\"");
  if (config.dist.takes_outer_steps() || config.dist.stages > 1 || config.dist.shard != Shard::none)
    refuse_exchange("dist", "one process", "ranks that divide a run",
                    "a config without the section dist");
  if (models::is_of_pairs(config.loss.kind))
    refuse_exchange("loss.kind", "a loss of single samples", "a loss of pairs",
                    "loss.kind = \"lm\"");
  if (work.model->losses().size() != 1)
    refuse_exchange("loss", "one loss", std::to_string(work.model->losses().size()) + " losses",
                    "a model with a single loss");
  if (!models::find_batch_norms(*work.model).none())
    refuse_exchange("model", "layers without running statistics", "batch normalisation",
                    "a model with layer or group normalisation, such as kind = \"vit\"");
}

std::vector<std::pair<std::string, std::string>> keys_of_sums(const Config& config) {
  // Paths are the business of each machine: what they lead to is compared (digest_of_frozen).
  const auto counts = [](const std::string& key) {
    if (key == "model.from" || key == "model.lora.from") return false;
    for (const char* section : {"model.", "loss.", "precision."})
      if (key.starts_with(section)) return true;
    return key == "run.seed" || key == "data.order" || key == "data.packing";
  };
  std::vector<std::pair<std::string, std::string>> keys;
  for (ConfigDifference& difference : differences(Config{}, config))
    if (counts(difference.key))
      keys.emplace_back(std::move(difference.key), std::move(difference.after));
  return keys;
}

std::string digest_of_frozen(const models::Trainable& model) {
  Checksum checksum;
  bool any = false;
  for (const NamedParameter& parameter : model.parameters()) {
    if (parameter.tensor.requires_grad()) continue;
    any = true;
    const at::Tensor values = parameter.tensor.detach().cpu().contiguous();
    checksum.add(parameter.name);
    checksum.add({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  return any ? checksum.text() : "";
}

void load_trained(const models::Trainable& model, const NamedParameters& values) {
  const at::NoGradGuard no_grad;
  const NamedParameters trained = optim::trained_of(model.parameters());
  for (const NamedParameter& parameter : trained) expect_value_of(parameter, values);
  for (const NamedParameter& value : values)
    if (std::ranges::find(trained, value.name, &NamedParameter::name) == trained.end())
      throw usage_error("take parameters", "parameters that are trained", value.name,
                        "the parameters of a process with the same config");
  for (const NamedParameter& parameter : trained)
    parameter.tensor.copy_(
        std::ranges::find(values, parameter.name, &NamedParameter::name)->tensor);
}

}  // namespace accrue::train
