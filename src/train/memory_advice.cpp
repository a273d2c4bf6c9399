#include "memory_advice.h"

#include <vector>

#include "accrue/core/cause.h"
#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"

namespace accrue::train {

std::string why_no_split(const Config& config) {
  if (config.precision.accumulate == "fixed")
    return "precision.accumulate = \"fixed\" promises the same bits for the same micro-batches";
  if (config.optim.kind == "adama")
    return "optim.kind = \"adama\" squares the gradient of each micro-batch, so their size is part "
           "of its mathematics";
  return {};
}

Error no_memory_for(const std::string& operation, const std::exception& error,
                    const std::string& advice) {
  return {Error::Kind::refused, operation,
          "memory for parameters, gradients, optimizer state and a sample", cause_of(error),
          advice};
}

std::string what_would_fit(const Config& config, const RunPlan& plan) {
  std::vector<std::string> ways;
  const std::int64_t missing = memory::last_missing_bytes();
  if (const auto budget = memory::budget(); budget && missing > 0)
    ways.push_back("a memory.budget of at least " + format_bytes(*budget + missing) + " (" +
                   format_bytes(missing) + " more)");
  const bool cuttable = config.model.kind != "torchscript" && config.model.batchnorm != "exact";
  if (cuttable && plan.recompute != Recompute::full)
    ways.emplace_back("memory.recompute = \"full\"");
  if (!why_no_split(config).empty()) ways.emplace_back("a new run with a smaller batch.micro");
  if (plan.batch_tokens > 0) ways.emplace_back("a shorter model.context");
  ways.emplace_back("a smaller model");
  std::string text;
  for (std::size_t i = 0; i < ways.size(); ++i)
    text += (i == 0 ? "" : i + 1 == ways.size() ? " or " : ", ") + ways[i];
  return text;
}

}  // namespace accrue::train
