#include "train/measure/rank_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/distributed/compression.h"
#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "core/words.h"
#include "train/config/accumulation_order.h"
#include "train/measure/memory_rate.h"
#include "train/plan/enough_memory.h"
#include "train/plan/plan_estimate.h"
#include "train/plan/setup.h"
#include "train/plan/storage.h"
#include "train/ranks/rank_conflicts.h"
#include "train/watch/gemm_rate.h"
#include "train/workload/layered_model.h"

namespace accrue::train {
namespace {

constexpr const char* planning_ranks = "plan --ranks";
/// Stands for the folder of a layout that offloads, in a config that has none.
constexpr const char* kSomeFolder = "FOLDER";

/// "2 or 4": the divisors of `ranks` next to a number that is none.
std::string divisors_around(std::int64_t ranks, std::int64_t nodes) {
  std::int64_t below = std::clamp<std::int64_t>(nodes, 1, ranks), above = below;
  while (ranks % below != 0) --below;
  while (above < ranks && ranks % above != 0) ++above;
  return std::to_string(below) + (above > below ? " or " + std::to_string(above) : "");
}

void check_rank_options(const RankPlanOptions& options) {
  const std::int64_t nodes = options.nodes.value_or(options.ranks);
  if (options.ranks < 2)
    throw usage_error(planning_ranks, "two ranks or more, whose layouts are compared",
                      std::to_string(options.ranks), "--ranks 2");
  if (nodes < 1 || options.ranks % nodes != 0)
    throw usage_error("plan --nodes",
                      "a number of nodes that divides the " + std::to_string(options.ranks) +
                          " ranks, so that each has as many",
                      std::to_string(nodes), "--nodes " + divisors_around(options.ranks, nodes));
  if (options.memory_bytes <= 0)
    throw usage_error("plan --memory", "the memory of one rank, above 0", "0", "--memory 24GiB");
  if (nodes > 1 && !options.link)
    throw usage_error(planning_ranks, "the rate of the link between nodes", "none",
                      "--link 25Gbit/s");
  if (nodes == 1 && options.link)
    throw usage_error("plan --link", "no link between nodes if there is only one", "--nodes 1",
                      "--node-link, between the ranks of a node");
  if (nodes == options.ranks && options.node_link)
    throw usage_error("plan --node-link", "a node with several ranks", "one rank in each",
                      "--nodes with fewer nodes than ranks");
}

/// The config without what a layout decides, and without a budget, which is stated of the ranks.
Config without_layout(Config config) {
  config.dist.shard = Shard::none;
  config.dist.stages = 1;
  config.memory.accumulation = AccumulationOrder::automatic;
  config.memory.offload.clear();
  config.memory.offload_budget = "none";
  config.memory.budget = "none";
  config.memory.budget_file.clear();
  return config;
}

/// The config of a layout. Without divided state no rank keeps a copy of a part.
Config config_of(const Config& config, const RankLayout& layout, std::int64_t ranks) {
  Config changed = without_layout(config);
  changed.dist.shard = layout.state.shard;
  if (layout.state.shard == Shard::none) changed.dist.shard_replica = ShardReplica::none;
  if (layout.in_stages) changed.dist.stages = ranks;
  if (layout.order == AccumulationOrder::layered)
    changed.memory.accumulation = AccumulationOrder::layered;
  if (layout.offloads)
    changed.memory.offload = config.memory.offloads() ? config.memory.offload : kSomeFolder;
  return changed;
}

/// Why ranks would refuse the config; none if they run it. The checks are those of a config that is
/// read, and of ranks that begin to train.
std::optional<Error> refusal_of_ranks(const Config& config, std::int64_t ranks) {
  const bool on_cuda = config.run.device && *config.run.device == Device::cuda;
  if (const auto conflict = conflict_of(config, ranks, on_cuda ? c10::kCUDA : c10::kCPU))
    return refusal_of(*conflict, ranks);
  if (const auto conflict = layered_conflict(config)) return refusal_of(*conflict, ranks);
  if (config.memory.offloads())
    if (auto refusal = refusal_to_offload(config)) return refusal;
  try {
    parse_config(to_toml(config), "the layout's config", {}, ConfigOrigin::run);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void expect_shared_steps(const Config& config) {
  if (config.dist.takes_outer_steps())
    throw usage_error(planning_ranks, "ranks that take each step together (dist.local_steps = 1)",
                      "ranks that step alone", "--dist.local_steps=1");
  if (config.dist.compress != distributed::Compression::none)
    throw usage_error(
        planning_ranks,
        "dist.compress = \"none\", since the bytes of compressed sums are not computed",
        in_quotes(to_string(config.dist.compress)), "--dist.compress=none");
}

/// The layouts that the ranks would run, and the others with the refusal.
struct Runnable {
  std::vector<RankLayout> layouts;
  std::vector<LayoutEntry> refused;
};

Runnable runnable_of(const Config& config, std::int64_t ranks) {
  Runnable runnable;
  std::optional<Error> first;
  for (const RankLayout& layout : rank_layouts()) {
    const std::optional<Error> refusal = refusal_of_ranks(config_of(config, layout, ranks), ranks);
    if (!refusal) {
      runnable.layouts.push_back(layout);
      continue;
    }
    if (!first) first = refusal;
    runnable.refused.push_back({.layout = layout,
                                .obstacle = "refused: " + refusal->operation() + " expects " +
                                            refusal->expected() + ", received " +
                                            refusal->received()});
  }
  if (runnable.layouts.empty()) throw *first;
  return runnable;
}

LayoutFacts facts_of(const Config& config, const RunEstimate& estimate) {
  LayoutFacts facts{.batch_samples = estimate.batch_samples,
                    .micro_batch = config.batch.micro,
                    .chain = estimate.chain,
                    .trained = estimate.trained,
                    .storage = storage_of(config),
                    .held = estimate.held,
                    .flops_per_sample = static_cast<double>(estimate.flops_per_sample),
                    .sums_overlap = config.dist.reduce == Reduce::overlap,
                    .has_frozen = estimate.trained < estimate.parameters,
                    .copies_moments = config.dist.shard_replica == ShardReplica::next};
  for (const RunEstimate::Mode& mode : estimate.modes)
    if (!config.memory.recompute || *config.memory.recompute == mode.recompute)
      facts.modes.push_back(mode);
  if (facts.modes.empty()) facts.modes = estimate.modes;  // a resnet's have no closed form
  // With the most recomputation only the blocks' inputs are kept, besides what one block takes.
  facts.segment_sample_bytes = std::max<std::int64_t>(
      0, estimate.modes.back().sample_bytes - estimate.chain.blocks * estimate.chain.cut_bytes);
  return facts;
}

/// The part of a rank's memory that a program with a budget leaves for what is no tensor. A
/// device's memory holds tensors alone.
std::int64_t outside_bytes_of(const Config& config, std::int64_t memory_bytes) {
  if (config.run.device && *config.run.device != Device::cpu) return 0;
  return outside_of_a_run(memory::resident_bytes()) + memory::reserve_outside(memory_bytes);
}

bool measures_node_link(const RankPlanOptions& options, const RankMachines& machines) {
  return !options.node_link && machines.ranks_of_a_node() > 1;
}

/// The machines with `tensor_bytes` a rank. Rates that were not stated are measured on this one.
RankMachines machines_of(const Config& config, const RankPlanOptions& options,
                         std::int64_t tensor_bytes) {
  RankMachines machines{.ranks = options.ranks,
                        .nodes = options.nodes.value_or(options.ranks),
                        .tensor_bytes = tensor_bytes,
                        .link = options.link.value_or(0)};
  if (options.disk) machines.disk = {.read = *options.disk, .write = *options.disk};
  const bool measures_link = measures_node_link(options, machines);
  if (!options.flops || measures_link) use_threads(config.run.threads);
  machines.flops = options.flops ? *options.flops : best_gemm_rate(config.precision.compute);
  machines.node_link = measures_link ? measure_memory_rate() : options.node_link.value_or(0);
  return machines;
}

/// The budget of a rank that leaves so many bytes for tensors.
std::int64_t memory_that_leaves(std::int64_t tensor_bytes, const RankPlan& plan) {
  if (plan.outside_bytes == 0) return tensor_bytes;
  return memory::budget_that_leaves(
      tensor_bytes, plan.outside_bytes - memory::reserve_outside(plan.memory_bytes));
}

/// Throws if no layout can be run, whatever the memory.
void expect_some_layout(const std::vector<LayoutEntry>& entries) {
  if (std::ranges::any_of(entries, [](const LayoutEntry& entry) { return !!entry.forecast; }))
    return;
  throw usage_error(planning_ranks, "as many ranks as can share the run",
                    name_of(entries.front().layout) + ": " + entries.front().obstacle,
                    "fewer --ranks, or a larger batch");
}

[[noreturn]] void refuse_memory(const std::vector<RankLayout>& layouts, const LayoutFacts& facts,
                                const RankPlan& plan) {
  const NearestFit nearest = nearest_fit(layouts, facts, plan.machines);
  std::vector<std::string> ways;
  if (nearest.ranks) ways.push_back("--ranks " + std::to_string(*nearest.ranks));
  std::string least = "more than any";
  if (nearest.tensor_bytes) {
    least = format_bytes_rounded_up(memory_that_leaves(*nearest.tensor_bytes, plan));
    ways.push_back("--memory \"" + least + "\"");
  }
  if (nearest.with_a_disk && plan.machines.disk.read <= 0)
    ways.push_back("memory.offload on a disk for each rank (--disk 2GB/s)");
  throw usage_error("plan --memory",
                    "a memory in which a layout of " + std::to_string(plan.machines.ranks) +
                        " ranks fits, of which the smallest takes " + least,
                    format_bytes(plan.memory_bytes) + ", of which " +
                        format_bytes(plan.machines.tensor_bytes) + " are for tensors",
                    ways.empty() ? "a smaller model" : listed(ways, "or"));
}

/// The keys that distinguish the config from one of the forecast.
std::vector<KeyToSet> keys_to_set(const Config& config, const LayoutForecast& best,
                                  std::int64_t ranks) {
  std::vector<KeyToSet> keys;
  const RankLayout& layout = best.layout;
  const bool is_layered = layout.order == AccumulationOrder::layered;
  const std::int64_t stages = layout.in_stages ? ranks : 1;
  if (config.dist.shard != layout.state.shard)
    keys.push_back({"dist.shard", in_quotes(to_string(layout.state.shard))});
  if (layout.state.shard == Shard::none && config.dist.shard_replica != ShardReplica::none)
    keys.push_back({"dist.shard_replica", in_quotes(shard_replica_words.of(ShardReplica::none))});
  if (config.dist.stages != stages) keys.push_back({"dist.stages", std::to_string(stages)});
  if (layout.offloads && !config.memory.offloads())
    keys.push_back({"memory.offload", in_quotes(kSomeFolder)});
  if (!layout.offloads && !config.memory.offload.empty())
    keys.push_back({"memory.offload", in_quotes("")});
  // Offloading brings the layered order with it.
  if (!layout.offloads && asks_for_layered(config) != is_layered)
    keys.push_back({"memory.accumulation", is_layered ? "\"layered\"" : "\"standard\""});
  if (config.batch.micro != best.point.micro_batch)
    keys.push_back({"batch.micro", std::to_string(best.point.micro_batch)});
  if (!is_layered && config.memory.recompute.value_or(Recompute::none) != best.point.recompute)
    keys.push_back({"memory.recompute", in_quotes(to_string(best.point.recompute))});
  return keys;
}

}  // namespace

RankPlan plan_ranks(const Config& config, const RankPlanOptions& options) {
  check_rank_options(options);
  expect_shared_steps(config);
  Runnable runnable = runnable_of(config, options.ranks);
  // The number of ranks that share a batch in micro-batches is that of the config as stated.
  Config open = without_layout(with_whole_batch(config, options.ranks));
  open.memory.recompute.reset();
  const RunEstimate estimate = estimate_run(open, {.ranks = options.ranks, .image = options.image});
  const LayoutFacts facts = facts_of(config, estimate);
  const std::int64_t outside = outside_bytes_of(config, options.memory_bytes);
  RankPlan plan{.machines = machines_of(config, options,
                                        std::max<std::int64_t>(0, options.memory_bytes - outside)),
                .memory_bytes = options.memory_bytes,
                .outside_bytes = outside,
                .flops_are_measured = !options.flops,
                .parameters = estimate.parameters,
                .batch_samples = estimate.batch_samples,
                .batch_tokens = estimate.batch_samples * estimate.sample_tokens};
  plan.node_link_is_measured = measures_node_link(options, plan.machines);
  plan.entries = compare_layouts(runnable.layouts, facts, plan.machines);
  expect_some_layout(plan.entries);
  const std::optional<std::size_t> chosen = fastest(plan.entries);
  if (!chosen) refuse_memory(runnable.layouts, facts, plan);
  plan.chosen = *chosen;
  plan.keys = keys_to_set(config, plan.best(), options.ranks);
  std::ranges::move(runnable.refused, std::back_inserter(plan.entries));
  return plan;
}

}  // namespace accrue::train
