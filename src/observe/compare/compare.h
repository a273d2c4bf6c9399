#pragma once

#include <optional>
#include <string>
#include <vector>

#include "observe/compare/allowance.h"
#include "observe/history/run_result.h"

namespace accrue::observe {

/// How much worse than the baseline each metric may be.
struct Allowances {
  Allowance loss = 0.005;
  Allowance speed = 0.05;
  Allowance memory = 0.02;
};

/// The runs of one side, which count as seeds of the same configuration.
struct SeedMean {
  double mean = 0;
  double deviation = 0;  ///< standard deviation of a run (n - 1 in its denominator); 0 for one run
  std::size_t runs = 0;
};

/// One metric of the runs together with that of the baseline.
struct MetricComparison {
  std::string name;                         ///< "loss", "speed" or "memory"
  std::string measure;                      ///< its source in metrics.jsonl, "eval_loss" ...
  std::optional<SeedMean> value, baseline;  ///< absent if not all runs of the side have it
  std::optional<double> difference;         ///< (value - baseline) / |baseline|
  /// Standard error of the difference, also relative to the baseline; absent for single runs.
  std::optional<double> standard_error;
  double allowed = 0;  ///< how much worse it may be
  bool met = false;
  std::string reason;  ///< for people: why it is met or not
};

struct Comparison {
  bool met = false;                       ///< all metrics are
  std::vector<MetricComparison> metrics;  ///< without those that are off
  std::vector<std::string> remarks;       ///< why the two sides are hard to compare
};

/// Whether the runs are as good as the baseline. Both sides have at least one run.
///
/// A metric is met if its mean is better than the baseline's, or worse by no more than is allowed.
/// If there are seeds, one that is worse by more than that is met as well, as long as the
/// difference is within its standard error: seeds that differ as much prove nothing. Their
/// deviation is estimated from both sides together, so that a side may have one run. A metric that
/// a run lacks is never met, nor is speed if units differ. The loss is that of the last evaluation
/// if all runs have one, and otherwise the training loss of all.
Comparison compare_runs(const std::vector<RunResult>& runs, const std::vector<RunResult>& baseline,
                        const Allowances& allowances);

}  // namespace accrue::observe
