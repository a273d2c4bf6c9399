#include "train/workload/layered_model.h"

#include <optional>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/train/custom.h"
#include "train/config/accumulation_order.h"
#include "train/config/gradient_folding.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

std::optional<Error> refusal_of_one_segment(const LayeredKey& order, models::Trainable& model) {
  const std::vector<models::Segment> segments = model.segments();
  if (segments.size() > 1) return std::nullopt;
  return usage_error(order.name, "a model in several segments",
                     "one that cannot be cut: '" + segments.at(0).name + "' runs as a whole",
                     order.without);
}

/// Which parameters a segment reads has to be known before any of it runs.
std::optional<Error> refusal_of_unknown_weights(const LayeredKey& order, models::Trainable& model) {
  for (const models::Segment& segment : model.segments())
    if (!segment.weights)
      return usage_error(order.name + " = " + order.value,
                         "a model whose segments list their weights (gpt2, llama, bert, vit)",
                         "one whose '" + segment.name + "' does not", order.without);
  return std::nullopt;
}

std::optional<Error> refusal_of(const Config& config, models::Trainable& model) {
  const LayeredKey order = layered_key(config).value();
  if (auto refusal = refusal_of_one_segment(order, model)) return refusal;
  if (config.dist.shard == Shard::all)
    if (auto refusal = refusal_of_unknown_weights(order, model)) return refusal;
  return config.memory.offloads() ? refusal_to_offload(config) : std::nullopt;
}

}  // namespace

std::optional<Error> refusal_to_offload(const Config& config) {
  const LayeredKey order = layered_key(config).value();
  if (config.custom && config.custom->optimizer)
    return usage_error(
        order.name, "an optimizer of accrue, which steps through the state in parts",
        "an optimizer of the program's own",
        "optim.kind in place of accrue::train::Custom::optimizer, or " + order.without);
  if (const c10::Device device = device_of(config); !device.is_cpu())
    return usage_error(order.name,
                       "a run on the CPU, in whose memory the offloaded state is mapped",
                       "run.device = \"auto\", which took " + device.str(),
                       "run.device = \"cpu\", or " + order.without);
  return std::nullopt;
}

void check_layered_model(const Config& config, models::Trainable& model) {
  if (!asks_for_layered(config)) return;
  if (const std::optional<Error> refusal = refusal_of(config, model)) throw Error(*refusal);
}

bool may_be_offloaded(const Workload& work) {
  if (work.offload || folds_gradients(work.config) || work.config.adapt.is_on()) return false;
  Config offloaded = work.config;
  offloaded.memory.offload = "FOLDER";
  // If "auto" kept the state in memory, it stated the order, too.
  if (!work.offload_reason.empty()) offloaded.memory.accumulation = AccumulationOrder::automatic;
  return !layered_conflict(offloaded) && !refusal_of(offloaded, *work.model);
}

}  // namespace accrue::train
