#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "observe/history/run_history.h"

namespace accrue::observe {

/// One split of the batch that the planner considered.
struct PlanChoice {
  std::int64_t micro_batch = 0;
  std::string recompute;
  std::optional<double> peak_bytes, seconds_per_step;
  bool is_chosen = false;
  bool within_budget = true;
};

struct PlanDescription {
  std::string reason;
  std::vector<PlanChoice> choices;  ///< by memory; the chosen one among them
  std::optional<double> budget_bytes, predicted_peak_bytes, measured_peak_bytes;
};

using NamedText = std::pair<std::string, std::string>;

/// The description of a run in run.json and its config, in words for people. Missing text is "".
struct RunDescription {
  std::string model;  ///< "GPT-2, 10.8 M parameters, 6 layers, width 384, context 256"
  std::string batch;  ///< "4 samples x 16 accumulation steps = 64 samples, 16,384 tokens"
  std::string unit;   ///< "tokens", "samples" or ""
  std::optional<PlanDescription> plan;
  std::vector<NamedText> environment;  ///< what it ran on and started from, in page order
};

/// Takes what exists with the expected type, and leaves out the rest.
RunDescription description_of(const RunHistory& run);

}  // namespace accrue::observe
