#include "train/plan/offload_choice.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "accrue/adapt/batch_controller.h"
#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/offload.h"
#include "train/checkpoint/resume.h"
#include "train/config/accumulation_order.h"
#include "train/config/gradient_folding.h"
#include "train/plan/enough_memory.h"
#include "train/plan/plan_choice.h"
#include "train/plan/plan_estimate.h"
#include "train/workload/layered_model.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

bool fits(const OffloadFacts& facts) {
  return facts.state_bytes && *facts.state_bytes + facts.sample_bytes <= facts.limit_bytes;
}

/// The folder that holds run.out, or the nearest one above it that exists: a file without a name
/// needs no more.
fs::path folder_beside(const fs::path& out) {
  if (out.empty()) return fs::current_path();
  fs::path folder = fs::absolute(out).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "runs/first/"
  std::error_code unreadable;
  do {
    folder = folder.parent_path();
  } while (!fs::is_directory(folder, unreadable) && folder.has_relative_path());
  return folder;
}

/// The arithmetic of a run in memory in standard order; none if the shape is not known.
std::optional<RunEstimate> estimate_in_memory(Config config, std::int64_t ranks) {
  if (is_foreign(config.model.kind)) return std::nullopt;
  config.memory.offload.clear();
  config.memory.accumulation = AccumulationOrder::automatic;
  if (auto estimate = estimate_if_known(config, {.ranks = ranks})) return estimate;
  return estimate_if_known(with_assumed_vocabulary(std::move(config)), {.ranks = ranks});
}

std::int64_t least_sample_bytes(const RunEstimate& estimate) {
  std::int64_t least = estimate.modes.front().sample_bytes;
  for (const RunEstimate::Mode& mode : estimate.modes) least = std::min(least, mode.sample_bytes);
  return least;
}

/// The part of the budget for tensors when the run has begun. Without a budget it is the limit of
/// a plan (preferred_limit) as it will be once the state is in memory, as far as it fits there.
std::int64_t limit_for(std::int64_t state_bytes, const std::optional<std::int64_t>& budget) {
  if (budget) {
    const bool is_of_process = memory::budget_of() == memory::BudgetOf::process;
    return std::max<std::int64_t>(0, *budget - (is_of_process ? outside_of_a_run(0) : 0));
  }
  const std::int64_t available = memory::available_bytes();
  return memory::usage().reserved + (available + std::min(state_bytes, available)) / 2;
}

std::string in_words(const Conflict& conflict) {
  return conflict.key + ": expected " + conflict.expected + ", received " + conflict.received;
}

std::string in_words(const Error& error) {
  return "expected " + error.expected() + ", received " + error.received();
}

/// A file for the state cannot be made in the folder, or has no room there.
std::string obstacle_of_disk(const fs::path& folder, std::int64_t state_bytes) {
  try {
    const memory::OffloadScope trial(folder);
  } catch (const Error& error) {
    return in_words(error);
  }
  const std::int64_t free = free_bytes_at(folder);
  return free < state_bytes ? "only " + format_bytes(free) + " are free in " + folder.string() : "";
}

/// Why a run of this config cannot be offloaded; empty if it can. The model itself is checked when
/// it exists (check_layered_model): those whose shape is known have several segments.
std::string obstacle_of(const Config& config, const fs::path& folder, std::int64_t state_bytes,
                        std::int64_t ranks) {
  Config offloaded = config;
  offloaded.memory.offload = folder.string();
  if (ranks > 1)
    return "\"auto\" decides for one process in this version, and there are " +
           std::to_string(ranks) + " ranks, which offload to a folder that is stated";
  if (const auto conflict = layered_conflict(offloaded)) return in_words(*conflict);
  if (const auto conflict = optimizer_memory_conflict(offloaded)) return in_words(*conflict);
  if (adapt::measures_noise(config.adapt.batch))
    return "adapt.batch measures the noise of single micro-batches, which layered accumulation "
           "runs together";
  if (const auto refusal = refusal_to_offload(offloaded)) return in_words(*refusal);
  return obstacle_of_disk(folder, state_bytes);
}

AccumulationOrder order_without_offloading(const Config& config) {
  return config.model.batchnorm == models::BatchNormPolicy::exact ? AccumulationOrder::automatic
                                                                  : AccumulationOrder::standard;
}

}  // namespace

OffloadDecision decide_offload(const OffloadFacts& facts) {
  if (!facts.state_bytes)
    return {.reason =
                "the state stays in memory: the config does not determine the model's shape, "
                "so its size is not known before the model is made"};
  const std::string sizes =
      "a state of " + format_bytes(*facts.state_bytes) + " and " +
      format_bytes(facts.sample_bytes) + " for a sample " +
      (fits(facts) ? "fit into the " : "do not fit into the ") + format_bytes(facts.limit_bytes) +
      (facts.is_budget ? " that memory.budget leaves for tensors" : " of memory for tensors");
  if (fits(facts)) return {.reason = sizes + ": it stays in memory"};
  if (!facts.obstacle.empty())
    return {.reason = sizes + ", but the run cannot be offloaded: " + facts.obstacle};
  return {.offloads = true, .reason = sizes + ": offloaded to " + facts.folder};
}

OffloadChoice choose_offload(Config config, std::int64_t ranks) {
  if (!config.memory.offload_is_auto()) return {.config = std::move(config)};
  const fs::path folder = folder_beside(config.run.out);
  OffloadFacts facts{.folder = folder.string()};
  if (const auto estimate = estimate_in_memory(config, ranks)) {
    const std::optional<std::int64_t> budget = tensor_limit(config);
    facts.state_bytes = estimate->held.total();
    facts.sample_bytes = least_sample_bytes(*estimate);
    facts.limit_bytes = limit_for(*facts.state_bytes, budget);
    facts.is_budget = budget.has_value();
    if (!fits(facts)) facts.obstacle = obstacle_of(config, folder, *facts.state_bytes, ranks);
  }
  OffloadDecision decision = decide_offload(facts);
  config.memory.offload = decision.offloads ? facts.folder : "";
  if (config.memory.accumulation == AccumulationOrder::automatic)
    config.memory.accumulation =
        decision.offloads ? AccumulationOrder::layered : order_without_offloading(config);
  return {.config = std::move(config), .reason = std::move(decision.reason)};
}

Config with_order_of_run(Config config, const Config& of_run) {
  MemoryConfig& memory = config.memory;
  if (memory.offload_is_auto() && memory.accumulation == AccumulationOrder::automatic)
    memory.accumulation =
        asks_for_layered(of_run) ? AccumulationOrder::layered : AccumulationOrder::standard;
  return config;
}

}  // namespace accrue::train
