#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "observe/report/run_description.h"

namespace accrue::observe {

/// The plan that a run.json (an object) holds; none if it holds none.
std::optional<PlanDescription> read_plan(const nlohmann::json& run_json);

/// The product that a batch is, as its plan says it: "4 samples x 16 accumulation steps x 2 ranks =
/// 128 samples, 32,768 tokens"; "" if the plan does not say, or the batch is no product.
std::string batch_in_words(const nlohmann::json& run_json);

}  // namespace accrue::observe
