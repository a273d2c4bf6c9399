#include "accrue/train/setup.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"
#include "machine.h"
#include "plan_choice.h"

namespace accrue::train {

void use_threads(std::int64_t threads) {
  const auto count = static_cast<int>(threads > 0 ? threads : granted_threads());
  at::set_num_threads(count);
  omp_set_num_threads(count);
}

std::int64_t threads_beside(std::int64_t processes) {
  return std::max<std::int64_t>(1, granted_threads() / processes);
}

namespace {

/// What the model needs comes on top; only what it is made of by its shape can be told here.
void check_budget_holds_the_program(const Config& config) {
  if (!memory::tensor_budget() || *memory::tensor_budget() > 0) return;
  throw Error(Error::Kind::refused, "memory.budget = \"" + config.memory.budget + "\"",
              "more than the program itself holds outside tensors (code, libraries, heap)",
              format_bytes(*memory::budget()) + ", of which it takes " +
                  format_bytes(memory::left_outside()),
              "a budget of at least " + format_bytes(memory::left_outside()) +
                  " and what the model takes (accrue plan CONFIG without a budget tells)");
}

}  // namespace

void use_resources(const Config& config) {
  use_threads(config.run.threads);
  if (!memory::caching_allocator_installed() && config.memory.budget == "none") return;
  memory::set_budget(memory::resolve_budget(config.memory.budget));
  memory::measure_outside();
  check_budget_holds_the_program(config);
}

std::optional<std::string> follow_budget(memory::BudgetWatch& watch) {
  if (!memory::caching_allocator_installed()) return std::nullopt;
  const auto change = watch.poll(memory::budget(), memory::held_of_a_budget());
  if (change) memory::set_budget(change->budget);
  const std::optional<std::string> outside = memory::measure_outside();
  return change ? change->reason : outside;
}

MicroDecision choose_micro_batch(const Workload& work) {
  memory::PlanQuestion question = plan_question(work);
  if (is_decided(question))
    return {.samples = std::min(*question.micro_batch, question.window_samples),
            .recompute = question.modes.front(),
            .reason = "as batch.micro says"};
  const std::unique_ptr<PlanTrials> trials = begin_trials(work, question);
  const std::vector<memory::Fact> facts =
      memory::measure([&](const memory::PlanPoint& point) { return trials->run(point); }, question);
  question.resident = trials->resident();
  follow_outside(question);
  const memory::Plan plan = memory::plan(facts, question);
  return {.samples = plan.chosen.point.micro_batch,
          .recompute = plan.chosen.point.recompute,
          .reason = plan.reason};
}

}  // namespace accrue::train
