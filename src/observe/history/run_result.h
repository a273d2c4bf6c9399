#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "observe/history/run_history.h"
#include "observe/history/run_speed.h"

namespace accrue::observe {

/// The results of a run, in a few numbers; unknown ones are absent.
struct RunResult {
  std::string name;
  RunState state = RunState::stopped;
  std::optional<std::int64_t> last_step, total_steps;
  /// The training loss: of the last step that has one.
  std::optional<double> last_loss;
  /// The loss by which runs are compared: the mean over the last tenth of the steps (one of fewer
  /// than 20), each with its `weight` where all have one.
  std::optional<double> train_loss;
  std::optional<double> eval_loss;  ///< the last
  std::optional<std::int64_t> eval_step;
  /// The evaluation after the last step of `eval_loss` had no finite loss.
  bool diverged = false;
  std::optional<Speed> speed;                 ///< without the first step of each attempt
  std::optional<double> peak_bytes;           ///< the largest of all steps
  std::optional<std::string> started, ended;  ///< UTC as ISO 8601; `ended` is absent while it runs
  std::string machine;                        ///< processor and threads; "" if not known
  std::string evaluated_on;                   ///< fingerprints of data.val; "" if not known
};

RunResult result_of(const RunHistory& run);

/// The last value that was measured of a column (null: none), which a run comes to. It is what the
/// terminal, the lists of runs and the report show of the training loss.
std::optional<double> last_value(const std::vector<double>* column);

/// How many steps `train_loss` is the mean of.
std::int64_t steps_of_last_tenth(const StepTable& table);

}  // namespace accrue::observe
