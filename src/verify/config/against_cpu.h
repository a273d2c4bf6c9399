#pragma once

#include "accrue/train/config.h"
#include "accrue/verify/report.h"
#include "verify/config/training_parts.h"
#include "verify/config/verify_config.h"

namespace accrue::proof {

/// Compares the gradient of the first window as training accumulates it on its device with that of
/// the same model in fp64 on the CPU by plain autograd and ATen's operators, per parameter; dropout
/// draws the same masks on both. The rounding error is measured on the device, by passes of ATen's
/// operators in the config's precision over a few samples, with different rounding. A config on the
/// CPU is compared in the same way. Throws the errors of verify_config(), and a usage Error for a
/// config that computes in fp64 on the CPU, since both sides would be the same.
Report verify_against_cpu(train::Config config, const VerifyConfigOptions& options = {},
                          const TrainingParts& parts = training_parts());

}  // namespace accrue::proof
