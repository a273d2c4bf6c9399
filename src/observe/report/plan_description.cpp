#include "observe/report/plan_description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/words.h"
#include "observe/report/json_fields.h"

namespace accrue::observe {
namespace {

using nlohmann::json;

PlanChoice choice_of(const json& entry) {
  PlanChoice choice{.micro_batch = integer_at(entry, "/micro_batch").value_or(0),
                    .recompute = text_at(entry, "/recompute"),
                    .peak_bytes = number_at(entry, "/predicted_peak_bytes"),
                    .seconds_per_step = number_at(entry, "/seconds_per_step")};
  if (!choice.seconds_per_step)
    choice.seconds_per_step = number_at(entry, "/predicted_seconds_per_batch");
  const auto fits = entry.find("within_limit");
  choice.within_budget = fits == entry.end() || *fits != false;
  return choice;
}

bool is_same_point(const PlanChoice& a, const PlanChoice& b) {
  return a.micro_batch == b.micro_batch && a.recompute == b.recompute;
}

/// The chosen one has more values than the same one among the alternatives, unless ranks agreed on
/// one that this rank's trials did not choose.
void mark_chosen(std::vector<PlanChoice>& choices, PlanChoice chosen) {
  const auto same = std::ranges::find_if(
      choices, [&](const PlanChoice& other) { return is_same_point(chosen, other); });
  if (same != choices.end()) {
    if (!chosen.peak_bytes) chosen.peak_bytes = same->peak_bytes;
    if (!chosen.seconds_per_step) chosen.seconds_per_step = same->seconds_per_step;
    choices.erase(same);
  }
  chosen.is_chosen = true;
  choices.push_back(std::move(chosen));
}

std::vector<PlanChoice> choices_of(const json& plan) {
  std::vector<PlanChoice> choices;
  if (const json* alternatives = array_at(plan, "/alternatives"))
    for (const json& entry : *alternatives)
      if (entry.is_object()) choices.push_back(choice_of(entry));
  mark_chosen(choices, choice_of(plan));
  std::stable_sort(choices.begin(), choices.end(), [](const PlanChoice& a, const PlanChoice& b) {
    return a.peak_bytes.value_or(0) < b.peak_bytes.value_or(0);
  });
  return choices;
}

const json* plan_of(const json& run_json) {
  const auto plan = run_json.find("plan");
  const bool is_one =
      plan != run_json.end() && plan->is_object() && integer_at(*plan, "/micro_batch");
  return is_one ? &*plan : nullptr;
}

}  // namespace

std::optional<PlanDescription> read_plan(const json& run_json) {
  const json* plan = plan_of(run_json);
  if (plan == nullptr) return std::nullopt;
  return PlanDescription{.reason = text_at(*plan, "/reason"),
                         .choices = choices_of(*plan),
                         .budget_bytes = number_at(*plan, "/budget_bytes"),
                         .predicted_peak_bytes = number_at(*plan, "/predicted_peak_bytes"),
                         .measured_peak_bytes = number_at(*plan, "/measured_peak_bytes")};
}

std::string batch_in_words(const json& run_json) {
  const json* plan = plan_of(run_json);
  if (plan == nullptr || array_at(*plan, "/effective_batch/by_rank") != nullptr) return "";
  const auto micro_batch = integer_at(*plan, "/effective_batch/micro_batch"),
             steps = integer_at(*plan, "/effective_batch/accumulation_steps"),
             samples = integer_at(*plan, "/effective_batch/samples");
  if (!micro_batch || !steps || !samples) return "";
  const std::int64_t ranks = integer_at(*plan, "/effective_batch/ranks").value_or(1);
  std::string words =
      counted(*micro_batch, "sample") + " x " + counted(*steps, "accumulation step");
  if (ranks > 1) words += " x " + std::to_string(ranks) + " ranks";
  words += " = " + digit_groups(*samples) + (*samples == 1 ? " sample" : " samples");
  if (const auto tokens = integer_at(*plan, "/effective_batch/tokens"))
    words += ", " + digit_groups(*tokens) + " tokens";
  return words;
}

}  // namespace accrue::observe
