#include "train/watch/run_watch.h"

#include <utility>

namespace accrue::train {

std::optional<Event> RunWatch::see_loss(const StepReport& step, batch::Range draws) {
  if (!step.loss) return std::nullopt;
  return spikes_.observe({.step = step.step,
                          .loss = *step.loss,
                          .grad_norm = step.grad_norm,
                          .lr = step.lr.value_or(0),
                          .draws = draws});
}

std::optional<Event> RunWatch::see_noise(const StepReport& step) {
  auto reason = noise_.observe(step);
  if (!reason) return std::nullopt;
  return Event{.name = "noise", .reason = std::move(*reason), .step = step.step};
}

std::vector<Event> RunWatch::see_machine(const StepReport& step,
                                         std::optional<std::int64_t> tensor_budget) {
  std::vector<Event> events;
  const auto add = [&](const char* name, std::optional<std::string> reason) {
    if (reason) events.push_back({.name = name, .reason = std::move(*reason), .step = step.step});
  };
  add("memory_near_budget", memory_.observe(step, tensor_budget));
  add("slow_input", input_.observe(step));
  return events;
}

}  // namespace accrue::train
