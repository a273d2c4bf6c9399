#include "accrue/memory/plan.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "accrue/core/units.h"
#include "cost_model.h"
#include "plan_refusal.h"

namespace accrue::memory {
namespace {

constexpr std::int64_t most_even_parts = 16;
constexpr double distinct_bytes = 0.15;  ///< between neighbours among the alternatives

std::vector<std::int64_t> sizes_of(const PlanQuestion& question) {
  if (question.micro_batch) return {std::min(*question.micro_batch, question.window_samples)};
  return micro_batch_candidates(question.window_samples);
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

std::vector<PlanEntry> entries_of(const std::vector<CostModel>& models,
                                  const PlanQuestion& question) {
  std::vector<PlanEntry> entries;
  for (const CostModel& model : models)
    for (const std::int64_t size : sizes_of(question))
      entries.push_back({.point = {size, model.mode()},
                         .peak_bytes = model.peak_bytes(size),
                         .micro_batch_seconds = model.seconds(size),
                         .window_seconds = model.window_seconds(question.window_samples, size),
                         .within_limit = is_within(question, model, size)});
  return entries;
}

/// The smallest peak among those that are nearly the fastest.
PlanEntry best_of_mode(const std::vector<PlanEntry>& entries) {
  double best = std::numeric_limits<double>::infinity();
  for (const PlanEntry& entry : entries) best = std::min(best, entry.window_seconds);
  const auto less = [](const PlanEntry& a, const PlanEntry& b) {
    return std::pair(a.peak_bytes, a.point) < std::pair(b.peak_bytes, b.point);
  };
  std::vector<PlanEntry> fast;
  std::ranges::copy_if(entries, std::back_inserter(fast), [&](const PlanEntry& entry) {
    return entry.window_seconds <= best * (1 + kPlanTolerance);
  });
  return *std::ranges::min_element(fast, less);
}

/// Of the modes' best the first that no later one beats by more than the tolerance.
PlanEntry best_of(const std::vector<PlanEntry>& entries) {
  std::map<Recompute, std::vector<PlanEntry>> by_mode;
  for (const PlanEntry& entry : entries) by_mode[entry.point.recompute].push_back(entry);
  std::optional<PlanEntry> best;
  for (const auto& [mode, of_mode] : by_mode) {
    const PlanEntry candidate = best_of_mode(of_mode);
    if (!best || candidate.window_seconds < best->window_seconds * (1 - kPlanTolerance))
      best = candidate;
  }
  return *best;
}

std::vector<PlanEntry> within_limit(const std::vector<PlanEntry>& entries) {
  std::vector<PlanEntry> within;
  std::ranges::copy_if(entries, std::back_inserter(within), &PlanEntry::within_limit);
  return within;
}

/// What may be chosen: what leaves a margin; where nothing does, what was measured to fit.
std::vector<PlanEntry> allowed_of(const std::vector<PlanEntry>& entries,
                                  const PlanQuestion& question) {
  const std::vector<PlanEntry> within = within_limit(entries);
  std::vector<PlanEntry> with_margin;
  std::ranges::copy_if(within, std::back_inserter(with_margin), [&](const PlanEntry& entry) {
    return leaves_margin(question, entry.peak_bytes);
  });
  return with_margin.empty() ? within : with_margin;
}

/// Fastest first, each with clearly fewer bytes than all before it. Of those that are as fast only
/// the last one is kept, which has the fewest bytes.
std::vector<PlanEntry> frontier_of(std::vector<PlanEntry> entries, const PlanEntry& chosen) {
  std::ranges::sort(entries, {}, [](const PlanEntry& entry) {
    return std::tuple(entry.window_seconds, entry.peak_bytes, entry.point);
  });
  std::vector<PlanEntry> frontier;
  double fastest = 0;  ///< of those as fast as the last one
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

/// Why not more samples at once.
std::string why_no_larger(const std::vector<PlanEntry>& entries, const PlanEntry& chosen,
                          const PlanQuestion& question) {
  if (question.micro_batch) return "as batch.micro says";
  if (chosen.point.micro_batch == question.window_samples) return "the whole batch at once";
  const PlanEntry* const next = next_larger(entries, chosen);
  if (next != nullptr && !next->within_limit)
    return std::to_string(next->point.micro_batch) + " would take " +
           format_bytes(next->peak_bytes);
  return "more at once gains less than 1%";
}

/// Why recomputation is worth its time; empty where nothing is recomputed.
std::string why_recompute(const std::vector<PlanEntry>& entries, const PlanEntry& chosen,
                          const PlanQuestion& question) {
  if (chosen.point.recompute == Recompute::none) return "";
  if (question.modes.front() != Recompute::none) return "; recomputation as memory.recompute says";
  std::vector<PlanEntry> plain;
  std::ranges::copy_if(allowed_of(entries, question), std::back_inserter(plain),
                       [](const auto& entry) { return entry.point.recompute == Recompute::none; });
  if (plain.empty()) return "; without recomputation nothing fits";
  const PlanEntry best = best_of(plain);
  return "; without recomputation " + std::to_string(best.point.micro_batch) +
         " fit, which would take " + seconds_in_words(best.window_seconds) + " a step";
}

std::string reason_of(const std::vector<PlanEntry>& entries, const PlanEntry& chosen,
                      const PlanQuestion& question) {
  std::string text = describe(chosen.point) + ": " + format_bytes(chosen.peak_bytes) + " of " +
                     limit_in_words(question) + ", " + seconds_in_words(chosen.window_seconds) +
                     " a step; " + why_no_larger(entries, chosen, question) +
                     why_recompute(entries, chosen, question);
  if (!chosen.within_limit) text += "; nothing stays within the limit, so the smallest is taken";
  return text;
}

/// Those that no trial refutes; a plan beyond the limit is one of them.
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

/// Whether a larger limit would change the plan.
bool is_short_of_memory(const std::vector<Fact>& facts, const PlanQuestion& question) {
  const std::vector<PlanEntry> entries = entries_of(fit_models(facts, question), question);
  if (entries.empty()) return true;
  const PlanEntry best = best_of(entries);
  return !best.within_limit || !leaves_margin(question, best.peak_bytes);
}

/// The trials of one mode.
class ModeTrials {
 public:
  ModeTrials(const Trial& trial, const PlanQuestion& question, Recompute mode)
      : trial_(trial), question_(question), mode_(mode) {}

  std::vector<Fact> run(double longest_seconds) {
    if (question_.micro_batch) {
      attempt(sizes_of(question_).front());
    } else if (attempt(1) && question_.window_samples > 1 && attempt(2)) {
      for (std::int64_t size = check_point(longest_seconds); size > 2 && !attempt(size); size /= 2)
        ;
    }
    return facts_;
  }

 private:
  bool attempt(std::int64_t size) {
    const PlanPoint point{size, mode_};
    facts_.push_back({point, trial_(point)});
    return facts_.back().measured.fits;
  }

  std::int64_t check_point(double longest_seconds) const {
    const CostModel model(mode_, facts_, question_.resident);
    std::int64_t size = 2;
    while (size <= question_.window_samples / 2 && is_within(question_, model, 2 * size) &&
           model.seconds(2 * size) <= longest_seconds)
      size *= 2;
    return size;
  }

  const Trial& trial_;
  const PlanQuestion& question_;
  Recompute mode_;
  std::vector<Fact> facts_;
};

}  // namespace

std::vector<std::int64_t> micro_batch_candidates(std::int64_t window_samples) {
  std::set<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= window_samples; size *= 2) sizes.insert(size);
  for (std::int64_t parts = 1; parts <= most_even_parts; ++parts)
    if (window_samples % parts == 0) sizes.insert(window_samples / parts);
  return {sizes.begin(), sizes.end()};
}

std::string describe(const PlanPoint& point) {
  const std::string samples =
      std::to_string(point.micro_batch) + (point.micro_batch == 1 ? " sample" : " samples");
  if (point.recompute == Recompute::none) return samples + ", nothing recomputed";
  return samples + ", " + std::string(to_string(point.recompute)) + " recomputation";
}

std::vector<Fact> measure(const Trial& trial, const PlanQuestion& question,
                          const MeasureOptions& options) {
  std::vector<Fact> facts;
  for (const Recompute mode : question.modes) {
    if (!facts.empty() && !options.all_modes && !is_short_of_memory(facts, question)) break;
    const std::vector<Fact> more = ModeTrials(trial, question, mode).run(options.longest_seconds);
    facts.insert(facts.end(), more.begin(), more.end());
  }
  return facts;
}

Plan plan(const std::vector<Fact>& facts, const PlanQuestion& question) {
  const std::vector<CostModel> models = fit_models(facts, question);
  const std::vector<PlanEntry> entries = entries_of(models, question);
  const std::vector<PlanEntry> allowed = allowed_of(entries, question);
  const std::vector<PlanEntry> possible = possible_of(entries, models);
  if (allowed.empty() && (question.is_budget || possible.empty())) throw refusal(facts, question);
  Plan plan{.chosen = allowed.empty() ? smallest_of(possible) : best_of(allowed)};
  const PlanPoint& point = plan.chosen.point;
  plan.micro_batches = (question.window_samples + point.micro_batch - 1) / point.micro_batch;
  plan.breakdown =
      std::ranges::find(models, point.recompute, &CostModel::mode)->breakdown(point.micro_batch);
  plan.alternatives = frontier_of(entries, plan.chosen);
  plan.reason = reason_of(entries, plan.chosen, question);
  return plan;
}

}  // namespace accrue::memory
