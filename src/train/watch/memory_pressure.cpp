#include "train/watch/memory_pressure.h"

#include <algorithm>
#include <array>

#include "accrue/core/units.h"
#include "memory/plan.h"

namespace accrue::train {
namespace {

/// A kind of memory that grew by less than this share of the budget is not a cause.
constexpr double least_growth = 0.005;

struct Growth {
  std::int64_t bytes = 0;
  const char* kind = nullptr;
};

Growth largest_growth(const MemoryByKind& now, const MemoryByKind& first) {
  const std::array growths{
      Growth{now.activations - first.activations, "activations and temporaries (longer samples?)"},
      Growth{now.parameters - first.parameters, "parameters"},
      Growth{now.packed - first.packed, "packed weights"},
      Growth{now.gradients - first.gradients, "gradients"},
      Growth{now.optimizer - first.optimizer, "the optimizer's state"}};
  return *std::ranges::max_element(growths, {}, &Growth::bytes);
}

}  // namespace

MemoryPressure::MemoryPressure() : alarm_(1 - memory::kPlanMargin, 1 - 2 * memory::kPlanMargin) {}

std::optional<std::string> MemoryPressure::observe(const StepReport& step,
                                                   std::optional<std::int64_t> tensor_budget) {
  if (!step.memory || !step.peak_bytes || !tensor_budget || *tensor_budget <= 0)
    return std::nullopt;
  const Seen now{.step = step.step,
                 .peak = *step.peak_bytes,
                 .budget = *tensor_budget,
                 .memory = *step.memory};
  if (!first_) first_ = now;
  if (!alarm_.rings(static_cast<double>(now.peak) / static_cast<double>(now.budget)))
    return std::nullopt;
  return "tensors took " + format_bytes(now.peak) + " at once, which leaves " +
         format_bytes(std::max<std::int64_t>(0, now.budget - now.peak)) + " of the " +
         format_bytes(now.budget) + " that memory.budget has for them: " + cause_of(now, *first_);
}

std::string MemoryPressure::cause_of(const Seen& now, const Seen& first) {
  const std::string then = "step " + std::to_string(first.step);
  const Growth growth = largest_growth(now.memory, first.memory);
  const std::int64_t lost = first.budget - now.budget;
  const auto least = static_cast<std::int64_t>(least_growth * static_cast<double>(now.budget));
  if (lost > std::max(least, growth.bytes))
    return "the budget itself is suspected, of which tensors had " + format_bytes(first.budget) +
           " in " + then + " (a budget file, or memory outside of tensors that grew)";
  const std::string advice =
      "; try a smaller batch.micro, memory.recompute = \"full\" or a larger budget";
  if (growth.bytes > least)
    return "what grew since " + then + " is suspected: " + growth.kind + ", by " +
           format_bytes(growth.bytes) + advice;
  return "the micro-batch is suspected, which is about the largest that fits" + advice;
}

}  // namespace accrue::train
