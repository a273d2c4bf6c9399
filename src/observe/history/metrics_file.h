#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "observe/history/run_history.h"

namespace accrue::observe {

/// The contents of metrics.jsonl (docs/design.md, section 5).
struct Metrics {
  StepTable table;
  std::vector<EvaluationPoint> evaluations;
  std::vector<EventPoint> events;
  std::vector<std::string> remarks;
};

/// Reads `file` by read_run()'s rules. Without such a file all is empty.
Metrics read_metrics(const std::filesystem::path& file);

}  // namespace accrue::observe
