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
  /// Told what is being compared, for people.
  std::function<void(const std::string&)> progress{};
  /// Shows what comes before: data and model are opened, micro-batches are tried.
  ShowProgress show{};
  /// How many ranks share the window, as train would be started; 0: one, or a pipeline's stages.
  std::int64_t ranks = 0;
  /// Splits, orders and steps on all of the window, whatever that takes.
  bool thorough = false;
};

/// Verifies a config's model on the first window of its data, as training runs it, against one pass
/// by plain autograd and ATen's operators over the window (or the largest parts that fit the
/// memory): the gradient of the closed window, the loss and the weight; on its first samples
/// several splits, orders and short runs of optimizer steps, these against torch::optim; on at most
/// 8 samples everything in fp64 as the arbiter. Beside the first, what training's other ways make
/// of the window: folded into the optimizer, by ranks, by the stages of a pipeline. In low
/// precision also the window beside its micro-batches each by itself, which rounding hardly blurs.
/// The cost is planned by work (docs/guide/verify.md): about six windows', fp64 not counted. Writes
/// nothing.
///
/// `model.batchnorm = "error"` is taken as "micro" here, so that the difference is shown and named.
/// Throws a usage Error if the config is wrong, or the window has one sample, no weight, or a
/// loss or gradient that is not finite; a runtime Error if it does not fit into the memory.
Report verify_config(train::Config config, const VerifyConfigOptions& options = {});

/// Verifies a workload whose model was found to be one that training takes, made of `parts`.
Report verify_workload(train::Workload work, const VerifyConfigOptions& options = {},
                       const TrainingParts& parts = training_parts());

}  // namespace accrue::proof
