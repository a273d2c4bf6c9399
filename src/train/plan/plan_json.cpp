#include "train/plan/plan_json.h"

#include <nlohmann/json.hpp>

namespace accrue::train {
namespace {

using nlohmann::json;

/// Adds the trials' results for the plan that was chosen from them.
void add_trials(json& out, const RunPlan& plan) {
  const memory::Plan& trials = *plan.trials;
  for (const memory::PlanEntry& entry : trials.alternatives)
    out["alternatives"].push_back(to_json(entry, plan.batch_samples, 0));
  const memory::PlanEntry& chosen = trials.chosen;
  // Several ranks may have agreed on a smaller micro-batch than this rank's trials gave.
  if (chosen.point != memory::PlanPoint{plan.micro_batch, plan.recompute}) return;
  out["predicted_peak_bytes"] = chosen.peak_bytes;
  if (chosen.measured) out["measured_peak_bytes"] = chosen.peak_bytes;
  out["predicted_seconds_per_micro_batch"] = chosen.micro_batch_seconds;
  out["seconds_per_step"] = chosen.window_seconds;
  out["breakdown"] = to_json(trials.breakdown);
}

}  // namespace

json effective_batch_json(const EffectiveBatch& batch) {
  json out{{"micro_batch", batch.micro_batch()},
           {"accumulation_steps", batch.accumulation_steps()},
           {"ranks", batch.by_rank.size()},
           {"samples", batch.samples()}};
  if (batch.tokens > 0) out["tokens"] = batch.tokens;
  if (batch.is_product()) return out;
  for (const RankBatch& rank : batch.by_rank)
    out["by_rank"].push_back({{"samples", rank.samples},
                              {"micro_batch", rank.micro_batch},
                              {"accumulation_steps", rank.accumulation_steps()}});
  return out;
}

json to_json(const memory::Breakdown& breakdown) {
  return {{"parameters", breakdown.parameters},
          {"gradients", breakdown.gradients},
          {"optimizer", breakdown.optimizer},
          {"activations", breakdown.activations},
          {"temporaries", breakdown.temporaries}};
}

json to_json(const memory::PlanEntry& entry, std::int64_t batch_samples, double closing_seconds) {
  const std::int64_t size = entry.point.micro_batch;
  return {{"micro_batch", size},
          {"micro_batches", (batch_samples + size - 1) / size},
          {"recompute", to_string(entry.point.recompute)},
          {"predicted_peak_bytes", entry.peak_bytes},
          {"predicted_seconds_per_micro_batch", entry.micro_batch_seconds},
          {"predicted_seconds_per_batch", entry.window_seconds},
          {"seconds_per_step", entry.window_seconds + closing_seconds},
          {"within_limit", entry.within_limit}};
}

json to_json(const RunPlan& plan, const std::vector<RankRecord>& records) {
  json out{{"micro_batch", plan.micro_batch},
           {"micro_batches", plan.micro_batches},
           {"recompute", to_string(plan.recompute)},
           {"reason", plan.micro_reason},
           {"batch_samples", plan.batch_samples},
           {"effective_batch", effective_batch_json(plan.effective)}};
  if (plan.accelerate) out["accelerate"] = *plan.accelerate;
  if (plan.batch_tokens > 0) out["batch_tokens"] = plan.batch_tokens;
  for (const RankRecord& rank : records)
    out["ranks"].push_back(
        {{"micro_batch", rank.micro_batch}, {"recompute", to_string(rank.recompute)}});
  if (plan.trials) add_trials(out, plan);
  return out;
}

}  // namespace accrue::train
