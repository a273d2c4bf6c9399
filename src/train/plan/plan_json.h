#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "accrue/train/effective_batch.h"
#include "accrue/train/run_plan.h"
#include "memory/plan.h"
#include "train/checkpoint/rank_record.h"

namespace accrue::train {

// Plans as JSON, for `accrue plan --json` and run.json; docs/design.md, section 5, names the keys.

nlohmann::json effective_batch_json(const EffectiveBatch& batch);
nlohmann::json to_json(const memory::Breakdown& breakdown);
/// An alternative, for a batch of `batch_samples`. `closing_seconds` are a step's seconds outside
/// of its micro-batches; 0 if they are not known.
nlohmann::json to_json(const memory::PlanEntry& entry, std::int64_t batch_samples,
                       double closing_seconds);
/// The plan of a run on ranks with these records. Values that only trials give are absent if there
/// were none.
nlohmann::json to_json(const RunPlan& plan, const std::vector<RankRecord>& records);

}  // namespace accrue::train
