#pragma once

#include <string>
#include <vector>

#include "accrue/core/enum_words.h"
#include "observe/history/run_result.h"

namespace accrue::observe {

/// The source of a loss.
enum class LossMeasure {
  eval_loss,   ///< the last evaluation
  train_loss,  ///< the mean of the last tenth of the steps
};
inline constexpr auto loss_measure_words = enum_words<LossMeasure>(
    {{LossMeasure::eval_loss, "eval_loss"}, {LossMeasure::train_loss, "train_loss"}});

/// The evaluation's loss if all runs were evaluated, so that only equal measures are compared.
LossMeasure loss_measure(const std::vector<RunResult>& runs,
                         const std::vector<RunResult>& baseline);

/// The runs whose last evaluation had no finite loss.
std::vector<std::string> diverged_runs(const std::vector<RunResult>& runs,
                                       const std::vector<RunResult>& baseline);

/// Why the runs are hard to compare, in sentences: runs that have not ended, losses of different
/// steps or kinds, other machines, other data to evaluate on.
std::vector<std::string> remarks_on(const std::vector<RunResult>& runs,
                                    const std::vector<RunResult>& baseline);

}  // namespace accrue::observe
