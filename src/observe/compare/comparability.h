#pragma once

#include <string>
#include <vector>

#include "accrue/core/enum_words.h"
#include "observe/history/run_result.h"

namespace accrue::observe {

/// What a loss is taken from.
enum class LossMeasure {
  eval_loss,   ///< the last evaluation
  train_loss,  ///< the mean of the last tenth of the steps
};
inline constexpr auto loss_measure_words = enum_words<LossMeasure>(
    {{LossMeasure::eval_loss, "eval_loss"}, {LossMeasure::train_loss, "train_loss"}});

/// The evaluation's where all runs were evaluated, so that like is compared with like.
LossMeasure loss_measure(const std::vector<RunResult>& runs,
                         const std::vector<RunResult>& baseline);

/// Those whose last evaluation gave no finite loss.
std::vector<std::string> diverged_runs(const std::vector<RunResult>& runs,
                                       const std::vector<RunResult>& baseline);

/// What makes the runs hard to compare, in sentences: runs that have not ended, losses of different
/// steps or kinds, other machines, other data to evaluate on.
std::vector<std::string> remarks_on(const std::vector<RunResult>& runs,
                                    const std::vector<RunResult>& baseline);

}  // namespace accrue::observe
