#pragma once

#include <cstdint>

#include "accrue/core/long_operation.h"
#include "accrue/train/config.h"
#include "train/workload/workload.h"
#include "verify/config/verify_config.h"

namespace accrue::proof {

/// How many ranks the proof is of: as asked for, else the stages of the config's pipeline.
std::int64_t ranks_of(const train::Config& config, const VerifyConfigOptions& options);

/// Opens what training by `ranks` would take, with the reference of its pairs. Refuses what
/// training refuses, but for the missing choice of batch normalisation, whose difference is to be
/// shown.
train::Workload open_for_proof(train::Config config, std::int64_t ranks,
                               const ShowProgress& show = {});

}  // namespace accrue::proof
