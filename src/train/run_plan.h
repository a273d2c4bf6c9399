#pragma once

#include <string>

#include "accrue/core/ledger.h"
#include "accrue/train/setup.h"
#include "accrue/train/trainer.h"
#include "accrue/train/workload.h"

namespace accrue::train {

/// Input tokens of a full window, on average where samples differ in length; 0 for images.
std::int64_t tokens_of_window(const Workload& work);

/// The plan of a run whose micro-batch is decided.
RunPlan make_plan(const Workload& work, const MicroDecision& decision);

/// One line for people: "gpt2, 10.8 M parameters, fp32; batch of 16384 tokens = 8 micro-batches of
/// 8; ...".
std::string summarise(const Config& config, const RunPlan& plan);

/// Which samples of the data a micro-batch's draws took, for people.
std::string in_the_data(const Workload& work, const MicroRef& micro);

Horizon make_horizon(const RunPlan& plan);

}  // namespace accrue::train
