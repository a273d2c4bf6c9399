#pragma once

#include "accrue/train/config.h"
#include "accrue/verify/report.h"
#include "verify/config/training_parts.h"
#include "verify/config/verify_config.h"

namespace accrue::proof {

/// The gradient of the first window as training adds it up on its device, against that of the same
/// model in fp64 on the CPU by plain autograd and ATen's operators, per parameter; dropout draws
/// the same masks on both. What rounding may do is measured on the device, by passes of ATen's
/// operators in the config's precision over a few of the samples that round otherwise. A config on
/// the CPU is compared in the same way. Throws what verify_config() throws, and a usage Error for a
/// config that computes in fp64 on the CPU: both would be the same.
Report verify_against_cpu(train::Config config, const VerifyConfigOptions& options = {},
                          const TrainingParts& parts = training_parts());

}  // namespace accrue::proof
