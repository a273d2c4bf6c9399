#pragma once

#include <vector>

#include "memory/cost_model.h"
#include "memory/plan.h"

namespace accrue::memory {

/// The samples of a full batch on the rank with the most of them, in whole micro-batches.
std::int64_t samples_of_a_rank(const PlanQuestion& question, std::int64_t micro_batch);

/// Whether the limit leaves kPlanMargin next to this peak.
bool leaves_margin(const PlanQuestion& question, std::int64_t peak_bytes);
/// Whether a micro-batch of `size` may be selected: with the margin, or as measured to fit.
bool is_within(const PlanQuestion& question, const CostModel& model, std::int64_t size);

/// The micro-batches that may be selected (at least one): the stated one, or the candidates for a
/// rank's share from the smallest that can run.
std::vector<std::int64_t> sizes_of(const PlanQuestion& question);
/// All entries to consider, in every mode that has a model.
std::vector<PlanEntry> entries_of(const std::vector<CostModel>& models,
                                  const PlanQuestion& question);

/// The largest error of the times that fitted.
double noise_of(const std::vector<Fact>& facts);

/// The plan's choice from `entries` (not empty), whose times have the error `noise`: in each mode
/// the smallest peak of those as fast as the best, and among these the first mode that no later
/// one beats. An entry only counts as fast if it is shown to be as fast as the largest measured
/// size.
PlanEntry best_of(const std::vector<PlanEntry>& entries, double noise);

}  // namespace accrue::memory
