#pragma once

#include <string>

#include "accrue/core/error.h"
#include "accrue/train/run_plan.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Why a run of this config may not change its micro-batches when memory runs out, if its results
/// depend on them; empty if it may.
std::string fixed_micro_batch_reason(const Config& config);

/// The error if memory runs out in `operation` and nothing is left to split: exit status 3.
Error no_memory_for(const std::string& operation, const std::exception& error,
                    const std::string& advice);

/// Opens a workload for training by `ranks` processes, with memory.offload = "auto" decided
/// (choose_offload); memory that runs out meanwhile is a refused Error that names what is enough.
Workload open_within_memory(const Config& config, std::int64_t ranks,
                            const ShowProgress& show = {});

/// Advice if a single sample does not fit, with the bytes that were missing last.
std::string memory_advice(const Workload& work, const RunPlan& plan);

}  // namespace accrue::train
