#pragma once

#include <string>

#include "accrue/models/gpt2.h"
#include "accrue/train/trainer.h"
#include "workload.h"

namespace accrue::train {

/// The plan of a run whose micro-batch is decided (`micro_batch`, `micro_reason`).
RunPlan make_plan(const Config& config, const Datasets& data, const NamedParameters& parameters,
                  std::int64_t micro_batch, std::string micro_reason);

/// One line for people: "gpt2, 10.8 M parameters, fp32; batch 16,384 tokens = 8 x 16 samples; ...".
std::string summarise(const Config& config, const RunPlan& plan);

Horizon make_horizon(const RunPlan& plan);

}  // namespace accrue::train
