#include "train/measure/machine_estimate.h"

#include <algorithm>

#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "core/machine.h"
#include "train/plan/enough_memory.h"
#include "train/plan/setup.h"
#include "train/watch/gemm_rate.h"
#include "train/workload/model_factory.h"

namespace accrue::train {
namespace {

/// A whole step reaches at least this share of the rate of large matrix products
/// (docs/benchmarks.md).
constexpr double kLeastShare = 0.25;

}  // namespace

std::optional<BudgetEstimate> estimate_budget(const Config& config, const RunEstimate& estimate) {
  const std::optional<std::int64_t> budget = memory::resolve_budget(config.memory.budget);
  if (!budget) return std::nullopt;
  BudgetEstimate result{.budget_bytes = *budget,
                        .outside_bytes = outside_of_a_run(memory::resident_bytes()) +
                                         memory::reserve_outside(*budget)};
  const std::int64_t for_tensors = std::max<std::int64_t>(0, *budget - result.outside_bytes);
  const std::int64_t least = config.batch.micro ? estimate.micro_batch : 1;
  std::int64_t smallest = 0;
  for (const RunEstimate::Mode& mode : estimate.modes) {
    smallest = estimate.held.total() + least * mode.sample_bytes;
    const std::int64_t largest = memory::largest_micro_batch(
        for_tensors, estimate.held, mode.sample_bytes,
        config.batch.micro ? estimate.micro_batch : estimate.batch_samples);
    if (result.fits || largest < least) continue;
    result.fits = true;
    result.micro_batch = largest;
    result.recompute = mode.recompute;
    result.peak_bytes = estimate.held.total() + largest * mode.sample_bytes + result.outside_bytes;
  }
  const auto with_margin =
      static_cast<std::int64_t>(static_cast<double>(smallest) * (1 + 2 * memory::kPlanMargin));
  result.enough_bytes = memory::budget_that_leaves(
      with_margin, result.outside_bytes - memory::reserve_outside(*budget));
  return result;
}

MachineEstimate estimate_on_this_machine(const Config& config, const RunEstimate& estimate) {
  use_threads(config.run.threads);
  MachineEstimate machine{
      .threads = config.run.threads > 0 ? config.run.threads : granted_threads(),
      .available_bytes = memory::available_bytes()};
  const double best = best_gemm_rate(config.precision.compute);
  machine.gflops = best / 1e9;
  if (config.model.kind == ModelKind::resnet) return machine;
  // Forward and backward: 6 operations for each parameter and token, 4 for one that is frozen.
  const std::int64_t tokens = config.model.kind == ModelKind::vit
                                  ? config.model.context_or_default() + 1
                                  : std::max<std::int64_t>(1, estimate.sample_tokens);
  const double flops = static_cast<double>(4 * estimate.parameters + 2 * estimate.trained) *
                       static_cast<double>(estimate.batch_samples * tokens);
  machine.least_step_seconds = flops / best;
  machine.most_step_seconds = flops / best / kLeastShare;
  return machine;
}

}  // namespace accrue::train
