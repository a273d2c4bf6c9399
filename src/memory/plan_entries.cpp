#include "memory/plan_entries.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace accrue::memory {
namespace {

constexpr std::int64_t most_even_parts = 16;

std::int64_t rounded_up(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

/// The entry that the others are compared with: the largest size that was measured or, if there is
/// none, the largest.
const PlanEntry& reference_of(const std::vector<PlanEntry>& entries) {
  return *std::ranges::max_element(entries, {}, [](const PlanEntry& entry) {
    return std::pair(entry.measured, entry.point.micro_batch);
  });
}

/// The entries that are as fast as the reference, even with the largest errors of their times.
std::vector<PlanEntry> surely_fast(const std::vector<PlanEntry>& entries, double noise) {
  const PlanEntry& reference = reference_of(entries);
  std::vector<PlanEntry> fast;
  std::ranges::copy_if(entries, std::back_inserter(fast), [&](const PlanEntry& entry) {
    return entry.point == reference.point ||
           entry.window_seconds * (1 + noise) <= reference.window_seconds * (1 + kPlanTolerance);
  });
  return fast;
}

PlanEntry best_of_mode(const std::vector<PlanEntry>& entries, double noise) {
  std::vector<PlanEntry> fast = surely_fast(entries, noise);
  double best = std::numeric_limits<double>::infinity();
  for (const PlanEntry& entry : fast) best = std::min(best, entry.window_seconds);
  std::erase_if(fast, [&](const PlanEntry& entry) {
    return entry.window_seconds > best * (1 + kPlanTolerance);
  });
  return *std::ranges::min_element(
      fast, {}, [](const PlanEntry& entry) { return std::pair(entry.peak_bytes, entry.point); });
}

}  // namespace

std::int64_t samples_of_a_rank(const PlanQuestion& question, std::int64_t micro_batch) {
  const std::int64_t micro_batches = rounded_up(question.window_samples, micro_batch);
  return std::min(question.window_samples, rounded_up(micro_batches, question.ranks) * micro_batch);
}

bool leaves_margin(const PlanQuestion& question, std::int64_t peak_bytes) {
  return static_cast<double>(peak_bytes) <=
         static_cast<double>(question.limit_bytes) * (1 - kPlanMargin);
}

bool is_within(const PlanQuestion& question, const CostModel& model, std::int64_t size) {
  const std::int64_t peak = model.peak_bytes(size);
  if (!model.may_fit(size)) return false;
  return leaves_margin(question, peak) ||
         (model.was_measured(size) && peak <= question.limit_bytes);
}

std::vector<std::int64_t> sizes_of(const PlanQuestion& question) {
  if (question.micro_batch) return {std::min(*question.micro_batch, question.window_samples)};
  std::vector<std::int64_t> sizes =
      micro_batch_candidates(rounded_up(question.window_samples, question.ranks));
  const std::int64_t least = std::min(question.least_micro_batch, sizes.back());
  std::erase_if(sizes, [&](std::int64_t size) { return size < least; });
  return sizes;
}

std::vector<PlanEntry> entries_of(const std::vector<CostModel>& models,
                                  const PlanQuestion& question) {
  std::vector<PlanEntry> entries;
  for (const CostModel& model : models)
    for (const std::int64_t size : sizes_of(question))
      entries.push_back(
          {.point = {size, model.mode()},
           .peak_bytes = model.peak_bytes(size),
           .micro_batch_seconds = model.seconds(size),
           .window_seconds = model.window_seconds(samples_of_a_rank(question, size), size),
           .within_limit = is_within(question, model, size),
           .measured = model.was_measured(size)});
  return entries;
}

double noise_of(const std::vector<Fact>& facts) {
  double noise = 0;
  for (const Fact& fact : facts)
    if (fact.measured.fits) noise = std::max(noise, fact.measured.error);
  return noise;
}

PlanEntry best_of(const std::vector<PlanEntry>& entries, double noise) {
  std::map<Recompute, std::vector<PlanEntry>> by_mode;
  for (const PlanEntry& entry : entries) by_mode[entry.point.recompute].push_back(entry);
  std::optional<PlanEntry> best;
  for (const auto& [mode, of_mode] : by_mode) {
    const PlanEntry candidate = best_of_mode(of_mode, noise);
    if (!best ||
        candidate.window_seconds * (1 + noise) < best->window_seconds * (1 - kPlanTolerance))
      best = candidate;
  }
  return *best;
}

std::vector<std::int64_t> micro_batch_candidates(std::int64_t window_samples) {
  std::set<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= window_samples; size *= 2) sizes.insert(size);
  for (std::int64_t parts = 1; parts <= most_even_parts; ++parts)
    if (window_samples % parts == 0) sizes.insert(window_samples / parts);
  return {sizes.begin(), sizes.end()};
}

}  // namespace accrue::memory
