#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "observe/report/run_description.h"

namespace accrue::observe {

/// The plan in a run.json (an object); none if it has none.
std::optional<PlanDescription> read_plan(const nlohmann::json& run_json);

/// The product that makes up a batch, from its plan: "4 samples x 16 accumulation steps x 2 ranks =
/// 128 samples, 32,768 tokens"; "" if the plan does not have it, or the batch is not a product.
std::string batch_in_words(const nlohmann::json& run_json);

}  // namespace accrue::observe
