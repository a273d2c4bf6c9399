#pragma once

#include <optional>
#include <string>
#include <vector>

#include "observe/history/run_history.h"

namespace accrue::observe {

/// One number that summarizes a run.
struct Figure {
  std::string id, label;
  double value = 0;            ///< in base units: seconds, bytes, a share of 1
  std::string text;            ///< the value for people
  std::string detail;          ///< what it is computed from: "mean of the last 50 steps"
  std::optional<double> part;  ///< of a whole, 0 to 1, for a bar
};

/// The summary of a run, as far as it was measured: training_loss (the mean of the last tenth of
/// the steps), eval_loss (the last), eval_accuracy (likewise), speed, share_of_ceiling and their
/// medians, peak_bytes (the most), time, energy, steps.
std::vector<Figure> key_figures(const RunHistory& run);

}  // namespace accrue::observe
