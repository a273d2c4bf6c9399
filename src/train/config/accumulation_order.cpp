#include "train/config/accumulation_order.h"

#include "accrue/accum/compression.h"
#include "core/words.h"

namespace accrue::train {
namespace {

/// The order "standard" with a key that needs the layered one.
std::optional<Conflict> standard_conflict(const Config& config, const LayeredKey& key) {
  if (config.memory.accumulation != AccumulationOrder::standard) return std::nullopt;
  const bool holds_a_segment = config.memory.offloads() || config.dist.shard == Shard::all;
  const std::string reason = holds_a_segment
                                 ? ", which has the state of one segment at a time in memory"
                                 : ", whose statistics are those of all micro-batches";
  return Conflict{"memory.accumulation", "\"auto\" or \"layered\" with " + key.statement() + reason,
                  "\"standard\"", "accumulation = \"layered\", or " + key.without};
}

/// A setting for which micro-batches have to run through the whole model one by one.
std::optional<Conflict> order_conflict(const Config& config, const LayeredKey& key) {
  const std::string with = " with " + key.statement(), or_without = ", or " + key.without;
  if (config.precision.compute == models::Compute::fp16)
    return Conflict{"precision.compute",
                    "another than \"fp16\"" + with +
                        ", since a loss scale is not in this version of the layered order",
                    "\"fp16\"", "compute = \"bf16\"" + or_without};
  if (config.run.graphs)
    return Conflict{"run.graphs",
                    "false" + with + ", whose passes through one segment are not recorded", "true",
                    "graphs = false" + or_without};
  if (config.memory.recompute && *config.memory.recompute != Recompute::none)
    return Conflict{"memory.recompute",
                    "\"none\" or \"auto\"" + with +
                        ", which computes each segment again from its input for backward",
                    in_quotes(to_string(*config.memory.recompute)),
                    "recompute = \"none\"" + or_without};
  if (config.dist.stages > 1)
    return Conflict{"dist.stages", "1" + with + ", which runs all segments on each rank",
                    std::to_string(config.dist.stages), "stages = 1" + or_without};
  if (config.dist.takes_outer_steps())
    return Conflict{config.dist.local_steps > 1 ? "dist.local_steps"
                    : config.dist.outer_lr      ? "dist.outer.lr"
                                                : "dist.outer.momentum",
                    "ranks that take each step together" + with, "ranks that step alone",
                    "local_steps = 1 without dist.outer" + or_without};
  return std::nullopt;
}

/// A setting with which this version does not offload.
std::optional<Conflict> offload_conflict(const Config& config, const LayeredKey& key) {
  const std::string with = " with " + key.statement(), or_without = ", or " + key.without;
  if (config.run.device && *config.run.device != Device::cpu)
    return Conflict{
        "run.device", "\"cpu\" or \"auto\"" + with + ", whose state lies in a file of the host",
        in_quotes(device_words.of(*config.run.device)), "device = \"cpu\"" + or_without};
  if (config.dist.shard != Shard::none)
    return Conflict{"dist.shard",
                    "\"none\"" + with +
                        ", with which each rank keeps the whole optimizer state in this version",
                    in_quotes(to_string(config.dist.shard)), "shard = \"none\"" + or_without};
  if (config.dist.compress != distributed::Compression::none)
    return Conflict{"dist.compress",
                    "\"none\"" + with + ", since compression needs all sums in memory",
                    in_quotes(to_string(config.dist.compress)), "compress = \"none\"" + or_without};
  return std::nullopt;
}

/// A setting with which this version does not divide parameters among ranks.
std::optional<Conflict> division_conflict(const Config& config, const LayeredKey& key) {
  const std::string with = " with " + key.statement(), or_without = ", or " + key.without;
  if (config.run.device && *config.run.device != Device::cpu)
    return Conflict{"run.device", "\"cpu\" or \"auto\"" + with + ", whose parts lie in host memory",
                    in_quotes(device_words.of(*config.run.device)),
                    "device = \"cpu\"" + or_without};
  if (config.memory.offload_is_auto())
    return Conflict{"memory.offload",
                    "\"\"" + with + ", whose parts stay in memory in this version", "\"auto\"",
                    "leaving memory.offload out" + or_without};
  if (config.model.lora.adapters.any())
    return Conflict{"lora.rank",
                    "0" + with + ", since a frozen base is not divided in this version",
                    std::to_string(config.model.lora.adapters.rank), "rank = 0" + or_without};
  if (!config.model.freeze.empty())
    return Conflict{"model.freeze",
                    "none" + with + ", since frozen parameters are not divided in this version",
                    "a pattern", "freeze = []" + or_without};
  if (config.loss.kind == models::LossKind::dpo)
    return Conflict{"loss.kind",
                    "a loss without a reference" + with + ", which would be whole on each rank",
                    "\"dpo\"", "kind = \"orpo\"" + or_without};
  if (config.observe.histograms)
    return Conflict{"observe.histograms",
                    "none" + with + ", since no rank has whole weights after a step", "a distance",
                    "leaving histograms out" + or_without};
  if (config.dist.shard_replica != ShardReplica::none)
    return Conflict{
        "dist.shard_replica",
        "\"none\"" + with + ", with which all go back to the last checkpoint if a rank is lost",
        in_quotes(shard_replica_words.of(config.dist.shard_replica)),
        "shard_replica = \"none\"" + or_without};
  return std::nullopt;
}

}  // namespace

std::optional<LayeredKey> layered_key(const Config& config) {
  if (config.memory.offloads())
    return LayeredKey{"memory.offload", in_quotes(config.memory.offload),
                      "leaving memory.offload out"};
  if (config.dist.shard == Shard::all)
    return LayeredKey{"dist.shard", "\"all\"", "dist.shard = \"optimizer\""};
  if (config.memory.accumulation == AccumulationOrder::layered)
    return LayeredKey{"memory.accumulation", "\"layered\"", "memory.accumulation = \"standard\""};
  if (config.model.batchnorm == models::BatchNormPolicy::exact)
    return LayeredKey{"model.batchnorm", "\"exact\"", "batchnorm = \"convert-group\""};
  return std::nullopt;
}

bool asks_for_layered(const Config& config) {
  return config.memory.offloads() || config.dist.shard == Shard::all ||
         config.memory.accumulation == AccumulationOrder::layered;
}

bool have_same_order(const Config& a, const Config& b) {
  return asks_for_layered(a) == asks_for_layered(b);
}

std::optional<Conflict> layered_conflict(const Config& config) {
  const std::optional<LayeredKey> key = layered_key(config);
  if (!key) return std::nullopt;
  if (auto conflict = standard_conflict(config, *key)) return conflict;
  if (config.adapt.lr_rule == adapt::RateRule::adascale)
    return Conflict{"adapt.lr_rule",
                    "a rule that needs no gradient of a single micro-batch with " +
                        key->statement() + ", which runs all micro-batches together",
                    "\"adascale\"", "lr_rule = \"sqrt\", or " + key->without};
  // Exact batch normalisation has none of these limits itself; for a model with batch
  // normalisations other checks refuse recomputation, stages and local steps.
  if (!asks_for_layered(config)) return std::nullopt;
  if (auto conflict = order_conflict(config, *key)) return conflict;
  if (config.dist.shard == Shard::all && !config.memory.offloads())
    if (auto conflict = division_conflict(config, *key)) return conflict;
  return config.memory.offloads() ? offload_conflict(config, *key) : std::nullopt;
}

}  // namespace accrue::train
