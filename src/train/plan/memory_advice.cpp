#include "train/plan/memory_advice.h"

#include <vector>

#include "accrue/memory/caching_allocator.h"
#include "core/cause.h"
#include "core/words.h"
#include "memory/out_of_memory.h"
#include "memory/plan_refusal.h"
#include "train/plan/enough_memory.h"
#include "train/plan/offload_choice.h"
#include "train/plan/plan_choice.h"

namespace accrue::train {

std::string fixed_micro_batch_reason(const Config& config) {
  if (config.precision.accumulate == accum::Accumulation::fixed)
    return "precision.accumulate = \"fixed\" promises the same bits for the same micro-batches";
  if (config.dist.stages > 1)
    return "the stages of a pipeline pass each other the same micro-batches";
  if (config.optim.kind == OptimizerKind::adama)
    return "optim.kind = \"adama\" squares the gradient of each micro-batch, so their size is part "
           "of its mathematics";
  return {};
}

Error no_memory_for(const std::string& operation, const std::exception& error,
                    const std::string& advice) {
  return {Error::Kind::refused, operation,
          "memory for parameters, gradients, optimizer state and a sample",
          memory::why_out_of_memory(error), advice};
}

Workload open_within_memory(const Config& config, std::int64_t ranks, const ShowProgress& show) {
  const OffloadChoice offload = choose_offload(config, ranks);
  try {
    Workload work = open_workload(offload.config, show);
    work.offload_reason = offload.reason;
    return work;
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    throw no_memory_for("open the model", error,
                        memory::larger_budget(enough_budget(offload.config)) +
                            ", or a smaller model" + memory::in_brackets(offload.reason));
  }
}

std::string memory_advice(const Workload& work, const RunPlan& plan) {
  std::vector<std::string> ways;
  const std::int64_t missing = memory::last_missing_bytes();
  if (const auto budget = memory::budget(); budget && missing > 0) {
    const std::optional<std::int64_t> enough = enough_budget(work);
    ways.push_back(
        memory::larger_budget(enough && *enough > *budget + missing ? enough : std::nullopt));
  }
  if (plan.recompute != Recompute::full && can_recompute(work))
    ways.emplace_back("memory.recompute = \"full\"");
  if (!fixed_micro_batch_reason(work.config).empty())
    ways.emplace_back("a new run with a smaller batch.micro");
  if (plan.batch_tokens > 0) ways.emplace_back("a shorter model.context");
  ways.emplace_back("a smaller model");
  return listed(ways, "or") + memory::in_brackets(work.offload ? "" : work.offload_reason);
}

}  // namespace accrue::train
