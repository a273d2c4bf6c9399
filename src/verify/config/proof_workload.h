#pragma once

#include <cstdint>

#include "accrue/core/long_operation.h"
#include "accrue/train/config.h"
#include "train/workload/workload.h"
#include "verify/config/verify_config.h"

namespace accrue::proof {

/// The number of ranks of the verification: as requested, else the stages of the pipeline.
std::int64_t ranks_of(const train::Config& config, const VerifyConfigOptions& options);

/// Opens the data of training by `ranks`, with the reference of its pairs. Refuses what
/// training refuses, except a missing choice for batch normalisation, whose difference is to be
/// shown.
train::Workload open_for_proof(train::Config config, std::int64_t ranks,
                               const ShowProgress& show = {});

}  // namespace accrue::proof
