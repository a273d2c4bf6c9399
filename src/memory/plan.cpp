#include "memory/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <tuple>
#include <utility>

#include "accrue/core/units.h"
#include "memory/cost_model.h"
#include "memory/plan_entries.h"
#include "memory/plan_refusal.h"

namespace accrue::memory {
namespace {

constexpr double distinct_bytes = 0.15;  ///< of an alternative's bytes, to the next one

std::vector<PlanEntry> within_limit(const std::vector<PlanEntry>& entries) {
  std::vector<PlanEntry> within;
  std::ranges::copy_if(entries, std::back_inserter(within), &PlanEntry::within_limit);
  return within;
}

/// The entries that may be selected: those that leave a margin or, if none does, those that were
/// measured to fit.
std::vector<PlanEntry> allowed_of(const std::vector<PlanEntry>& entries,
                                  const PlanQuestion& question) {
  const std::vector<PlanEntry> within = within_limit(entries);
  std::vector<PlanEntry> with_margin;
  std::ranges::copy_if(within, std::back_inserter(with_margin), [&](const PlanEntry& entry) {
    return leaves_margin(question, entry.peak_bytes);
  });
  return with_margin.empty() ? within : with_margin;
}

/// The entries that none beats, fastest first, each with clearly fewer bytes than all before it.
/// Among equally fast entries only the last one is kept, which has the fewest bytes.
std::vector<PlanEntry> frontier_of(std::vector<PlanEntry> entries, const PlanEntry& chosen) {
  std::ranges::sort(entries, {}, [](const PlanEntry& entry) {
    return std::tuple(entry.window_seconds, entry.peak_bytes, entry.point);
  });
  std::vector<PlanEntry> frontier;
  double fastest = 0;  ///< seconds of the fastest among those as fast as the last one
  for (const PlanEntry& entry : entries) {
    if (!frontier.empty() &&
        static_cast<double>(entry.peak_bytes) >
            static_cast<double>(frontier.back().peak_bytes) * (1 - distinct_bytes))
      continue;
    if (!frontier.empty() && entry.window_seconds <= fastest * (1 + kPlanTolerance)) {
      frontier.back() = entry;
    } else {
      frontier.push_back(entry);
      fastest = entry.window_seconds;
    }
  }
  std::erase_if(frontier, [&](const PlanEntry& entry) { return entry.point == chosen.point; });
  return frontier;
}

std::string seconds_in_words(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", seconds);
  return text;
}

const PlanEntry* next_larger(const std::vector<PlanEntry>& entries, const PlanEntry& chosen) {
  const PlanEntry* next = nullptr;
  for (const PlanEntry& entry : entries) {
    if (entry.point.recompute != chosen.point.recompute ||
        entry.point.micro_batch <= chosen.point.micro_batch)
      continue;
    if (next == nullptr || entry.point.micro_batch < next->point.micro_batch) next = &entry;
  }
  return next;
}

std::string limit_in_words(const PlanQuestion& question) {
  if (question.outside_bytes > 0)
    return "the " + format_bytes(question.limit_bytes) + " that the budget of " +
           format_bytes(question.limit_bytes + question.outside_bytes) + " leaves to tensors";
  return std::string(question.is_budget ? "the budget of " : "the limit of ") +
         format_bytes(question.limit_bytes);
}

/// The reason why no more samples run at once.
std::string why_no_larger(const std::vector<PlanEntry>& entries, const PlanEntry& chosen,
                          const PlanQuestion& question, double noise) {
  if (question.micro_batch) return "as batch.micro says";
  if (chosen.point.micro_batch == question.window_samples) return "the whole batch at once";
  if (chosen.point.micro_batch == sizes_of(question).back()) return "a rank's whole part at once";
  const PlanEntry* const next = next_larger(entries, chosen);
  if (next != nullptr && !next->within_limit)
    return std::to_string(next->point.micro_batch) + " would take " +
           format_bytes(next->peak_bytes);
  if (noise <= kPlanTolerance) return "more at once gains less than 1%";
  return "the machine is busy, so that times are known to " +
         std::to_string(std::lround(100 * noise)) +
         "%: more at once is not known to gain anything, nor fewer to cost nothing";
}

/// The reason why recomputation is worth its time; empty if nothing is recomputed.
std::string why_recompute(const std::vector<PlanEntry>& entries, const PlanEntry& chosen,
                          const PlanQuestion& question, double noise) {
  if (chosen.point.recompute == Recompute::none) return "";
  if (question.modes.front() != Recompute::none) return "; recomputation as memory.recompute says";
  std::vector<PlanEntry> plain;
  std::ranges::copy_if(allowed_of(entries, question), std::back_inserter(plain),
                       [](const auto& entry) { return entry.point.recompute == Recompute::none; });
  if (plain.empty()) return "; without recomputation nothing fits";
  const PlanEntry best = best_of(plain, noise);
  return "; without recomputation " + std::to_string(best.point.micro_batch) +
         " fit, which would take " + seconds_in_words(best.window_seconds) + " a step";
}

std::string reason_of(const std::vector<PlanEntry>& entries, const PlanEntry& chosen,
                      const PlanQuestion& question, double noise) {
  std::string text = format_bytes(chosen.peak_bytes) + " of " + limit_in_words(question) + ", " +
                     seconds_in_words(chosen.window_seconds) + " a step; " +
                     why_no_larger(entries, chosen, question, noise) +
                     why_recompute(entries, chosen, question, noise);
  if (!chosen.within_limit) text += "; nothing stays within the limit, so the smallest is taken";
  return text;
}

/// The entries that no trial refutes, including plans beyond the limit.
std::vector<PlanEntry> possible_of(const std::vector<PlanEntry>& entries,
                                   const std::vector<CostModel>& models) {
  std::vector<PlanEntry> possible;
  std::ranges::copy_if(entries, std::back_inserter(possible), [&](const PlanEntry& entry) {
    return std::ranges::find(models, entry.point.recompute, &CostModel::mode)
        ->may_fit(entry.point.micro_batch);
  });
  return possible;
}

PlanEntry smallest_of(const std::vector<PlanEntry>& entries) {
  return *std::ranges::min_element(
      entries, {}, [](const PlanEntry& entry) { return std::pair(entry.peak_bytes, entry.point); });
}

}  // namespace

std::string describe(const PlanPoint& point) {
  const std::string samples =
      std::to_string(point.micro_batch) + (point.micro_batch == 1 ? " sample" : " samples");
  if (point.recompute == Recompute::none) return samples + ", nothing recomputed";
  return samples + ", " + std::string(to_string(point.recompute)) + " recomputation";
}

Plan plan(const std::vector<Fact>& facts, const PlanQuestion& question) {
  const std::vector<CostModel> models = fit_models(facts, question);
  const std::vector<PlanEntry> entries = entries_of(models, question);
  const std::vector<PlanEntry> allowed = allowed_of(entries, question);
  const std::vector<PlanEntry> possible = possible_of(entries, models);
  if (allowed.empty() && (question.is_budget || possible.empty())) throw refusal(facts, question);
  const double noise = noise_of(facts);
  Plan plan{.chosen = allowed.empty() ? smallest_of(possible) : best_of(allowed, noise)};
  const PlanPoint& point = plan.chosen.point;
  plan.micro_batches = (question.window_samples + point.micro_batch - 1) / point.micro_batch;
  plan.breakdown =
      std::ranges::find(models, point.recompute, &CostModel::mode)->breakdown(point.micro_batch);
  plan.alternatives = frontier_of(entries, plan.chosen);
  plan.reason = reason_of(entries, plan.chosen, question, noise);
  return plan;
}

}  // namespace accrue::memory
