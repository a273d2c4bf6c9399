#pragma once

#include <memory>
#include <vector>

#include "memory/plan.h"
#include "train/plan/plan_trials.h"

namespace accrue::train {

/// Whether the model has cuts to recompute from.
bool can_recompute(const Workload& work);

/// The budget for tensors: the one in force, or memory.budget; none without one.
std::optional<std::int64_t> tensor_limit(const Config& config);

/// The workload's question to the planner: its batch, the budget in force (memory::budget(), or
/// memory.budget; limit 0 without one), and the recomputation that config and model allow. Throws a
/// usage Error if memory.recompute requests a mode that the model does not have.
memory::PlanQuestion plan_question(const Workload& work);

/// Sets in `question` the part of a budget that is left for tensors, after trials have shown what
/// the program itself takes. Facts beyond that limit are measured again by `afresh`, as they may
/// take less if there is less: an allocator with room keeps free lists.
void remeasure_beyond_budget(const memory::Trial& afresh, memory::PlanQuestion& question,
                             std::vector<memory::Fact>& facts);

/// The limit if there is no budget: the memory in use and half of the free memory.
std::int64_t preferred_limit(const memory::Resident& resident);

/// Whether config and limits leave only one answer.
bool is_decided(const memory::PlanQuestion& question);

/// The trials for `question`, whose resident bytes it sets; and, if there is no budget, the limit
/// (preferred_limit). Throws a refused Error with the missing bytes if not even the resident bytes
/// fit.
std::unique_ptr<PlanTrials> begin_trials(const Workload& work, memory::PlanQuestion& question);

/// Whether the planner may choose `point`: a trial of it leaves the plan's margin within the limit
/// of choose_micro_batch(). As that, it is to be called before the run's own state is made.
bool may_be_planned(const Workload& work, const memory::PlanPoint& point);

/// Throws the refused Error of a budget that does not hold `question`'s resident bytes, after an
/// allocation of them failed.
[[noreturn]] void refuse_resident_bytes(const memory::PlanQuestion& question);

}  // namespace accrue::train
