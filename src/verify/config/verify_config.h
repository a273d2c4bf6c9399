#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "accrue/core/long_operation.h"
#include "accrue/train/config.h"
#include "accrue/verify/report.h"
#include "train/workload/workload.h"
#include "verify/config/training_parts.h"

namespace accrue::proof {

struct VerifyConfigOptions {
  /// Called with the current comparison, for people.
  std::function<void(const std::string&)> progress{};
  /// Shows what comes before: data and model are opened, micro-batches are tried.
  ShowProgress show{};
  /// How many ranks share the window, as train would be started; 0: one, or a pipeline's stages.
  std::int64_t ranks = 0;
  /// Splits, orders and steps on all of the window, at any cost.
  bool thorough = false;
};

/// Verifies a config's model on the first window of its data, as training runs it, against one pass
/// of plain autograd and ATen's operators over the window (or the largest parts that fit in
/// memory): the gradient of the closed window, the loss and the weight; on its first samples
/// several splits, orders and short runs of optimizer steps, these against torch::optim; on at most
/// 8 samples everything in fp64 as a reference. It also checks training's other methods on the
/// window: folded into the optimizer, by ranks, by the stages of a pipeline. In low precision it
/// also compares the window with its micro-batches in separate passes, which rounding hardly
/// affects. The cost is planned by work (docs/guide/verify.md): about six windows', fp64 not
/// counted. Writes nothing.
///
/// `model.batchnorm = "error"` is treated as "micro" here, so that the difference is shown and
/// named. Throws a usage Error if the config is wrong, or the window has one sample, no weight, or
/// a loss or gradient that is not finite; a runtime Error if it does not fit into memory.
Report verify_config(train::Config config, const VerifyConfigOptions& options = {});

/// Verifies a workload whose model is known to be accepted by training, with `parts`.
Report verify_workload(train::Workload work, const VerifyConfigOptions& options = {},
                       const TrainingParts& parts = training_parts());

}  // namespace accrue::proof
