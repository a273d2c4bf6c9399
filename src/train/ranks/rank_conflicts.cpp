#include "train/ranks/rank_conflicts.h"

#include <string>

#include "accrue/accum/compression.h"
#include "core/words.h"
#include "distributed/reduce/deferred_reduce.h"
#include "train/config/accumulation_order.h"
#include "train/config/gradient_folding.h"
#include "train/plan/setup.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

/// A setting that several ranks cannot run on any device.
std::optional<Conflict> conflict_anywhere(const Config& config, std::int64_t world) {
  if (folds_gradients(config)) {
    const std::string expected = "gradients in a buffer, whose sums the ranks add";
    if (config.optim.kind == OptimizerKind::adama)
      return Conflict{"optim.kind", expected, "\"adama\", which folds them into its moments",
                      "kind = \"adamw\""};
    return Conflict{"memory.gradients", expected, "\"optimizer\"", "gradients = \"buffer\""};
  }
  const bool adds_sums = !config.dist.takes_outer_steps();
  if (adds_sums && !distributed::adds_up(config.precision.accumulate))
    return Conflict{
        "precision.accumulate", "\"fp32\", \"fp64\" or \"fixed\"",
        in_quotes(to_string(config.precision.accumulate)) + ", whose sums ranks would round again",
        "accumulate = \"fp32\""};
  if (config.precision.compute == models::Compute::fp16)
    return Conflict{"precision.compute",
                    "a precision whose gradients need no loss scale, on which ranks would have to "
                    "agree in each window",
                    "\"fp16\"", "compute = \"bf16\", or one process"};
  if (config.memory.budget_is_auto())
    return Conflict{"memory.budget", "a size, for each rank",
                    "\"auto\", which is divided only if the launcher, as torchrun, states how many "
                    "ranks share a machine (LOCAL_WORLD_SIZE)",
                    "budget = \"" + budget_per_process(world) +
                        "\", which is the memory of this machine "
                        "divided by the ranks"};
  if (config.run.eval_every && config.run.eval_every->unit == Duration::Unit::seconds)
    return Conflict{"run.eval_every", "steps or tokens, which come at once on all ranks",
                    "a time, by each rank's own clock", "eval_every = \"100 steps\""};
  return std::nullopt;
}

std::optional<Conflict> conflict_on_device(const Config& config) {
  const std::string expected = "what ranks with GPUs can do: share windows, with whole sums";
  const auto& dist = config.dist;
  if (config.run.graphs)
    return Conflict{"run.graphs", "false, since ranks look at each micro-batch's loss", "true",
                    "graphs = false, or one process"};
  if (dist.stages > 1)
    return Conflict{"dist.stages", expected, std::to_string(dist.stages), "stages = 1"};
  if (dist.takes_outer_steps())
    return Conflict{"dist.local_steps", expected, "ranks that step alone", "local_steps = 1"};
  if (dist.shard != Shard::none)
    return Conflict{"dist.shard", expected, in_quotes(to_string(dist.shard)), "shard = \"none\""};
  if (dist.compress != distributed::Compression::none)
    return Conflict{"dist.compress", expected, in_quotes(to_string(dist.compress)),
                    "compress = \"none\""};
  if (const std::optional<LayeredKey> order = layered_key(config))
    return Conflict{order->name, expected, order->value, order->without + ", or one process"};
  return std::nullopt;
}

std::optional<Conflict> conflict_on_cpu(const Config& config) {
  if (config.dist.backend != Backend::nccl) return std::nullopt;
  return Conflict{"dist.backend", "\"gloo\", which moves sums on the CPU", "\"nccl\"",
                  "backend = \"auto\", or run.device = \"cuda\""};
}

}  // namespace

std::optional<Conflict> conflict_of_device(const Config& config) {
  if (!config.run.device || is_tested(*config.run.device)) return std::nullopt;
  return Conflict{"run.device", "\"cpu\" or \"cuda\", between which Gloo or NCCL moves sums",
                  in_quotes(device_words.of(*config.run.device)),
                  "one process, or device = \"cpu\""};
}

std::optional<Conflict> conflict_of(const Config& config, std::int64_t world, c10::Device device) {
  if (auto conflict = conflict_of_device(config)) return conflict;
  if (auto conflict = conflict_anywhere(config, world)) return conflict;
  return device.is_cpu() ? conflict_on_cpu(config) : conflict_on_device(config);
}

Error refusal_of(const Conflict& conflict, std::int64_t world) {
  return usage_error(conflict.key + " with " + std::to_string(world) + " ranks", conflict.expected,
                     conflict.received, conflict.suggestion);
}

void expect_enough_ranks(const Config& config, std::int64_t world) {
  const DistConfig& dist = config.dist;
  const std::string number = std::to_string(world);
  if (dist.stages != 1 && dist.stages != world)
    throw usage_error("dist.stages with " + number + (world > 1 ? " ranks" : " process"),
                      "as many stages as there are ranks", std::to_string(dist.stages),
                      "dist.stages = " + number + ", or " + std::to_string(dist.stages) + " ranks");
  if (world > 1 && dist.min_ranks > world)
    throw usage_error("dist.min_ranks with " + number + " ranks", "at most as many as there are",
                      std::to_string(dist.min_ranks), "min_ranks = " + number + ", or more ranks");
}

void expect_runnable_by(const Config& config, std::int64_t world) {
  expect_enough_ranks(config, world);
  if (world == 1) return;
  const c10::Device device = is_for_cpu(config) ? c10::kCPU : c10::kCUDA;
  if (const auto conflict = conflict_of(config, world, device)) throw refusal_of(*conflict, world);
}

bool can_lose_ranks(const Config& config) {
  const DistConfig& dist = config.dist;
  return dist.stages == 1 && !dist.takes_outer_steps() &&
         dist.compress == distributed::Compression::none &&
         config.model.batchnorm != models::BatchNormPolicy::exact;
}

}  // namespace accrue::train
