#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/text/json_sample.h"

namespace accrue::data {

/// What the loss of a line counts: its "weight", or 1; none where that is no such number.
inline std::optional<float> stated_weight(const nlohmann::ordered_json& line) {
  const auto stated = line.find("weight");
  if (stated == line.end()) return 1;
  if (!stated->is_number()) return std::nullopt;
  const auto weight = static_cast<float>(stated->get<double>());
  return weight >= 0 && std::isfinite(weight) ? std::optional(weight) : std::nullopt;
}

/// What is wrong with a line that has no stated_weight().
inline LineProblem weight_problem(const nlohmann::ordered_json& line) {
  return {"a finite \"weight\" of 0 or more", line["weight"].dump(), "1, or no weight"};
}

}  // namespace accrue::data
