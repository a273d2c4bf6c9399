#pragma once

#include <functional>
#include <string>

#include "accrue/train/config.h"
#include "accrue/verify/report.h"

namespace accrue::proof {

struct VerifyConfigOptions {
  /// Told what is being compared, for people.
  std::function<void(const std::string&)> progress{};
};

/// Verifies a config's model on the first window of its data, as training runs it: one pass over
/// the window (or the largest parts that fit the memory) against the split that training takes; on
/// its first samples several splits, orders and short runs of optimizer steps; on at most 8 samples
/// everything in fp64 as the arbiter. The cost is planned (docs/guide/verify.md): at most about six
/// windows' time, fp64 not counted. Writes nothing.
///
/// `model.batchnorm = "error"` is taken as "micro" here, so that the difference is shown and named.
/// Throws a usage Error where the config is wrong, or the window has one sample, no weight, or a
/// loss or gradient that is not finite.
Report verify_config(train::Config config, const VerifyConfigOptions& options = {});

}  // namespace accrue::proof
