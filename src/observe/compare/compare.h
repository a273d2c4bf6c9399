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

/// The runs of one side, which are taken for seeds of the same.
struct SeedMean {
  double mean = 0;
  double deviation = 0;  ///< standard deviation of a run (n - 1 in its denominator); 0 of one run
  std::size_t runs = 0;
};

/// One metric of the runs beside that of the baseline.
struct MetricComparison {
  std::string name;     ///< "loss", "speed" or "memory"
  std::string measure;  ///< what of metrics.jsonl it is made of, "eval_loss" ...
  std::optional<SeedMean> value, baseline;  ///< absent if not all runs of the side tell it
  std::optional<double> difference;         ///< (value - baseline) / |baseline|
  /// That of the difference, relative to the baseline, too; absent if each side is one run.
  std::optional<double> standard_error;
  double allowed = 0;  ///< how much worse it may be
  bool met = false;
  std::string reason;  ///< for people: why it is met or not
};

struct Comparison {
  bool met = false;                       ///< all metrics are
  std::vector<MetricComparison> metrics;  ///< without those that are off
  std::vector<std::string> remarks;       ///< what makes the two sides hard to compare
};

/// Whether the runs are as good as the baseline. Both sides have at least one run.
///
/// A metric is met if its mean is better than the baseline's, or worse by no more than is
/// allowed. If there are seeds, one that is worse by more than that is met, too, as long as the
/// difference is within its standard error: seeds that are as far apart prove nothing. Their
/// deviation is estimated from both sides together, so that a side may have one run.
/// A metric that a run lacks is never met, nor is speed where units differ. The loss is that of
/// the last evaluation where all runs have one, and else the training loss of all.
Comparison compare_runs(const std::vector<RunResult>& runs, const std::vector<RunResult>& baseline,
                        const Allowances& allowances);

}  // namespace accrue::observe
